#include "gathers.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsX86.h"

using namespace llvm;

namespace refrain {

namespace {

bool isGather(const IntrinsicInst &II) {
  switch (II.getIntrinsicID()) {
  case Intrinsic::x86_avx2_gather_d_pd:
  case Intrinsic::x86_avx2_gather_d_pd_256:
  case Intrinsic::x86_avx2_gather_q_pd:
  case Intrinsic::x86_avx2_gather_q_pd_256:
  case Intrinsic::x86_avx2_gather_d_ps:
  case Intrinsic::x86_avx2_gather_d_ps_256:
  case Intrinsic::x86_avx2_gather_q_ps:
  case Intrinsic::x86_avx2_gather_q_ps_256:
  case Intrinsic::x86_avx2_gather_d_q:
  case Intrinsic::x86_avx2_gather_d_q_256:
  case Intrinsic::x86_avx2_gather_q_q:
  case Intrinsic::x86_avx2_gather_q_q_256:
  case Intrinsic::x86_avx2_gather_d_d:
  case Intrinsic::x86_avx2_gather_d_d_256:
  case Intrinsic::x86_avx2_gather_q_d:
  case Intrinsic::x86_avx2_gather_q_d_256:
    return true;
  default:
    return false;
  }
}

unsigned lanesOf(const Value *V) { return cast<FixedVectorType>(V->getType())->getNumElements(); }

// Arguments: what lanes without a set mask are, base, indices, a mask whose lanes count by their highest bit, scale. There may be more indices than results, or
// fewer: lanes without an index become 0.
void generalise(IntrinsicInst &II) {
  IRBuilder<> B(&II);
  Value *Otherwise = II.getArgOperand(0), *Index = II.getArgOperand(2), *Mask = II.getArgOperand(3);
  auto *Result = cast<FixedVectorType>(II.getType());
  unsigned Lanes = std::min(lanesOf(Otherwise), lanesOf(Index));
  SmallVector<int, 8> First, All;
  for (unsigned Lane = 0; Lane < Result->getNumElements(); Lane++) {
    if (Lane < Lanes)
      First.push_back(Lane);
    All.push_back(Lane < Lanes ? Lane : Lanes + Lane % Lanes);
  }
  auto Cut = [&](Value *V) { return lanesOf(V) == Lanes ? V : B.CreateShuffleVector(V, First); };
  auto *Wide = FixedVectorType::get(B.getInt64Ty(), Lanes);
  Value *Scale = B.CreateVectorSplat(Lanes, B.CreateZExt(II.getArgOperand(4), B.getInt64Ty()));
  Value *Bytes = B.CreateMul(B.CreateSExt(Cut(Index), Wide), Scale);
  Value *Places = B.CreateGEP(B.getInt8Ty(), II.getArgOperand(1), Bytes);
  Value *Bits = B.CreateBitCast(Mask, VectorType::getInteger(cast<VectorType>(Mask->getType())));
  Value *Set = Cut(B.CreateICmpSLT(Bits, Constant::getNullValue(Bits->getType())));
  auto *Part = FixedVectorType::get(Result->getElementType(), Lanes);
  Value *Loaded = B.CreateMaskedGather(Part, Places, Align(1), Set, Cut(Otherwise));
  if (Lanes < Result->getNumElements())
    Loaded = B.CreateShuffleVector(Loaded, Constant::getNullValue(Part), All);
  II.replaceAllUsesWith(Loaded);
  II.eraseFromParent();
}

} // namespace

void generaliseGathers(Module &M) {
  SmallVector<IntrinsicInst *, 8> Found;
  for (Function &F : M)
    for (Instruction &I : instructions(F))
      if (auto *II = dyn_cast<IntrinsicInst>(&I); II && isGather(*II))
        Found.push_back(II);
  for (IntrinsicInst *II : Found)
    generalise(*II);
}

} // namespace refrain
