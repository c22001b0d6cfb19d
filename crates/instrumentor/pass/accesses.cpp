#include "accesses.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace refrain {

Value *Access::pointer() const { return getLoadStorePointerOperand(I); }

Type *Access::type() const { return getLoadStoreType(I); }

std::optional<Access> plainAccess(Instruction &I, Filters &Keep, const DataLayout &DL) {
  auto *L = dyn_cast<LoadInst>(&I);
  auto *S = dyn_cast<StoreInst>(&I);
  if ((!L && !S) || I.isAtomic())
    return std::nullopt;
  Type *T = getLoadStoreType(&I);
  // Tile registers have no memory form a runtime call could take; accesses of nothing touch nothing.
  if (T->isX86_AMXTy() || DL.getTypeStoreSize(T).isScalable() || DL.getTypeStoreSize(T).isZero())
    return std::nullopt;
  if (Keep.IsMarked ? !I.hasMetadata(Filters::Mark)
                    : (L && Keep.readsImmutable(*L)) || Keep.isPrivate(getLoadStorePointerOperand(&I)))
    return std::nullopt;
  return Access{&I, DL.getTypeStoreSize(T).getFixedValue(), getLoadStoreAlignment(&I), S != nullptr, I.isVolatile()};
}

bool endsStretch(const Instruction &I) {
  if (I.isAtomic() || isa<FenceInst>(I))
    return true;
  auto *Call = dyn_cast<CallBase>(&I);
  if (!Call)
    return false;
  if (isa<DbgInfoIntrinsic>(I) || I.isLifetimeStartOrEnd())
    return false;
  // Intrinsics that compute (sqrt, ctpop, assume) are instructions in disguise; all else may synchronise.
  return !isa<IntrinsicInst>(I) || (I.mayReadOrWriteMemory() && !cast<IntrinsicInst>(I).isAssumeLikeIntrinsic());
}

namespace {

// Lengths of the pieces a small range is cut into: as few as possible, none larger than a vector register.
SmallVector<unsigned, 8> pieces(uint64_t Bytes) {
  SmallVector<unsigned, 8> Out;
  for (unsigned Piece = 16; Piece; Piece /= 2)
    for (; Bytes >= Piece; Bytes -= Piece)
      Out.push_back(Piece);
  return Out;
}

Type *pieceType(LLVMContext &C, unsigned Bytes) {
  Type *I64 = Type::getInt64Ty(C);
  return Bytes == 16 ? static_cast<Type *>(FixedVectorType::get(I64, 2)) : Type::getIntNTy(C, Bytes * 8);
}

void expandRange(MemIntrinsic &MI, uint64_t Bytes) {
  IRBuilder<> B(&MI);
  B.CollectMetadataToCopy(&MI, {MI.getContext().getMDKindID(WhyMark)});
  auto *Transfer = dyn_cast<MemTransferInst>(&MI);
  SmallVector<Value *, 8> Values;
  auto At = [&](Value *Base, uint64_t Offset) { return B.CreateConstGEP1_64(B.getInt8Ty(), Base, Offset); };
  uint64_t Offset = 0;
  // All loads come before all stores, so that overlapping moves are right too.
  for (unsigned Piece : pieces(Bytes)) {
    Type *T = pieceType(B.getContext(), Piece);
    if (Transfer) {
      Align A = commonAlignment(Transfer->getSourceAlign().valueOrOne(), Offset);
      Values.push_back(B.CreateAlignedLoad(T, At(Transfer->getRawSource(), Offset), A, MI.isVolatile()));
    } else {
      Value *Byte = cast<MemSetInst>(MI).getValue();
      unsigned Lane = std::min(Piece, 8u);
      Type *LaneType = B.getIntNTy(Lane * 8);
      uint64_t Ones = 0x0101010101010101ull >> (64 - 8 * Lane);
      Value *V = B.CreateMul(B.CreateZExt(Byte, LaneType), ConstantInt::get(LaneType, Ones));
      Values.push_back(Piece == 16 ? B.CreateVectorSplat(2, V) : V);
    }
    Offset += Piece;
  }
  Offset = 0;
  for (Value *V : Values) {
    Align A = commonAlignment(MI.getDestAlign().valueOrOne(), Offset);
    B.CreateAlignedStore(V, At(MI.getRawDest(), Offset), A, MI.isVolatile());
    Offset += MI.getModule()->getDataLayout().getTypeStoreSize(V->getType());
  }
  MI.eraseFromParent();
}

// Masked and gathered accesses only touch the lanes whose mask bit is set; each such lane becomes an access.
void expandMasked(IntrinsicInst &II) {
  bool Load = II.getIntrinsicID() == Intrinsic::masked_load || II.getIntrinsicID() == Intrinsic::masked_gather;
  unsigned PointerAt = Load ? 0 : 1;
  Value *Pointer = II.getArgOperand(PointerAt), *Mask = II.getArgOperand(PointerAt + 1);
  auto *T = cast<FixedVectorType>(Load ? II.getType() : II.getArgOperand(0)->getType());
  uint64_t Stride = II.getModule()->getDataLayout().getTypeAllocSize(T->getElementType());
  Align Whole = II.getParamAlign(PointerAt).valueOrOne();
  Value *Result = Load ? II.getArgOperand(2) : nullptr;
  for (unsigned Lane = 0; Lane < T->getNumElements(); Lane++) {
    IRBuilder<> B(&II);
    Value *P = Pointer->getType()->isVectorTy() ? B.CreateExtractElement(Pointer, Lane)
                                                : B.CreateConstGEP1_64(B.getInt8Ty(), Pointer, Lane * Stride);
    Align A = Pointer->getType()->isVectorTy() ? Whole : commonAlignment(Whole, Lane * Stride);
    Value *Set = B.CreateExtractElement(Mask, Lane);
    BasicBlock *Before = II.getParent();
    Instruction *Then = SplitBlockAndInsertIfThen(Set, &II, /*Unreachable=*/false);
    IRBuilder<> L(Then);
    L.CollectMetadataToCopy(&II, {II.getContext().getMDKindID(WhyMark)});
    if (!Load) {
      L.CreateAlignedStore(L.CreateExtractElement(II.getArgOperand(0), Lane), P, A);
      continue;
    }
    Value *With = L.CreateInsertElement(Result, L.CreateAlignedLoad(T->getElementType(), P, A), Lane);
    PHINode *Merged = PHINode::Create(T, 2, "", II.getParent()->begin());
    Merged->addIncoming(With, Then->getParent());
    Merged->addIncoming(Result, Before);
    Result = Merged;
  }
  if (Load)
    II.replaceAllUsesWith(Result);
  II.eraseFromParent();
}

} // namespace

bool isMasked(const Instruction &I) {
  auto *II = dyn_cast<IntrinsicInst>(&I);
  if (!II)
    return false;
  switch (II->getIntrinsicID()) {
  case Intrinsic::masked_load:
  case Intrinsic::masked_store:
  case Intrinsic::masked_gather:
  case Intrinsic::masked_scatter:
    return true;
  default:
    return false;
  }
}

bool touchesSharedRange(Instruction &I, Filters &Keep) {
  auto *II = dyn_cast<IntrinsicInst>(&I);
  if (!II)
    return false;
  if (Keep.IsMarked)
    return I.hasMetadata(Filters::Mark);
  auto *MI = dyn_cast<MemIntrinsic>(II);
  if (!MI)
    return isMasked(I);
  auto *Transfer = dyn_cast<MemTransferInst>(MI);
  return !Keep.isPrivate(MI->getRawDest()) || (Transfer && !Keep.isPrivate(Transfer->getRawSource()));
}

void expandSmallRanges(Function &F, Filters &Keep) {
  SmallVector<MemIntrinsic *, 16> Ranges;
  SmallVector<IntrinsicInst *, 4> Masked;
  for (Instruction &I : instructions(F)) {
    if (!touchesSharedRange(I, Keep))
      continue;
    auto *MI = dyn_cast<MemIntrinsic>(&I);
    auto *Length = MI ? dyn_cast<ConstantInt>(MI->getLength()) : nullptr;
    if (!MI)
      Masked.push_back(cast<IntrinsicInst>(&I));
    else if (Length && Length->getZExtValue() <= abi::ChunkBytes)
      Ranges.push_back(MI);
  }
  for (MemIntrinsic *MI : Ranges)
    expandRange(*MI, cast<ConstantInt>(MI->getLength())->getZExtValue());
  for (IntrinsicInst *II : Masked)
    expandMasked(*II);
}

SmallVector<MemIntrinsic *, 16> sharedRanges(Function &F, Filters &Keep) {
  SmallVector<MemIntrinsic *, 16> Ranges;
  for (Instruction &I : instructions(F))
    if (auto *MI = dyn_cast<MemIntrinsic>(&I); MI && touchesSharedRange(I, Keep))
      Ranges.push_back(MI);
  return Ranges;
}

void lowerRanges(ArrayRef<MemIntrinsic *> Ranges, Runtime &R, SiteTable &Sites, Value *InPlace) {
  for (MemIntrinsic *MI : Ranges) {
    IRBuilder<> B(MI);
    StringRef Plain = isa<MemSetInst>(MI) ? "memset" : isa<MemMoveInst>(MI) ? "memmove" : "memcpy";
    Type *Second = isa<MemSetInst>(MI) ? R.I32 : static_cast<Type *>(R.Ptr);
    Value *From = isa<MemSetInst>(MI) ? B.CreateZExt(cast<MemSetInst>(MI)->getValue(), R.I32)
                                      : cast<MemTransferInst>(MI)->getRawSource();
    Value *Length = B.CreateZExtOrTrunc(MI->getLength(), R.I64);
    FunctionType *T = FunctionType::get(R.Ptr, {R.Ptr, Second, R.I64, R.Ptr}, false);
    Value *Callee = R.function("__refrain_" + Plain, R.Ptr, T->params()).getCallee();
    if (InPlace) // The C function ignores the fourth argument, which travels in a register.
      Callee = B.CreateSelect(InPlace, Callee, R.M.getOrInsertFunction(Plain, R.Ptr, R.Ptr, Second, R.I64).getCallee());
    Constant *Site = Sites.site(*MI, abi::SiteKind::Range, 0);
    B.CreateCall(T, Callee, {MI->getRawDest(), From, Length, Site})->setDoesNotThrow();
    MI->eraseFromParent();
  }
}

} // namespace refrain
