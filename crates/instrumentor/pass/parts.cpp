#include "parts.h"
#include "calls.h"
#include "clones.h"
#include "groups.h"
#include "plain_loops.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace refrain {

namespace {

// Consecutive accesses of one element share a test.
struct Tested {
  std::vector<Access> Group;
  uint64_t Bits;
};

class Chosen {
public:
  Chosen(Function &F, Part &Word, Runtime &R, SiteTable &Sites) : Word(Word), R(R), Sites(Sites) {
    IRBuilder<> B(&*F.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    if (DISubprogram *S = F.getSubprogram())
      B.SetCurrentDebugLocation(DILocation::get(R.C, S->getScopeLine(), 0, S));
    LoadInst *L = Word.load(B);
    // It was written before f.coop was entered; if it changes after that, nothing is observed any more, and the runtime knows.
    L->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(R.C, {}));
    Loaded = L;
  }

  uint64_t bits(const Access &A) {
    return Word.bit(Sites.elementOf(*A.I, A.Write ? abi::SiteKind::Store : abi::SiteKind::Load));
  }

  // What has no element of its own is memory without a name.
  uint64_t bitsOfRanges() { return Word.bit(abi::SpeUnnamed); }

  // An i1 at the builder's place: is one of them chosen?
  Value *any(IRBuilder<> &At, uint64_t Bits) {
    return At.CreateICmpNE(At.CreateAnd(Loaded, R.number(Bits)), R.number(0), "refrain.chosen");
  }

  // The function's word, at its entry.
  Instruction *Loaded;

private:
  Part &Word;
  Runtime &R;
  SiteTable &Sites;
};

// What is tested at once: of a group those that follow each other and are of the same elements.
void split(const std::vector<Access> &Group, Chosen &C, std::vector<Tested> &Out) {
  for (size_t I = 0; I < Group.size(); I++) {
    uint64_t Bits = C.bits(Group[I]);
    if (I == 0 || Out.back().Bits != Bits)
      Out.push_back({{}, Bits});
    Out.back().Group.push_back(Group[I]);
  }
}

// The elements that a loop accesses; 0 if it accesses nothing that could be chosen.
uint64_t bitsOf(ArrayRef<BasicBlock *> Blocks, Chosen &C, Filters &Keep, const DataLayout &DL) {
  uint64_t Bits = 0;
  for (BasicBlock *BB : Blocks)
    for (Instruction &I : *BB) {
      if (std::optional<Access> A = plainAccess(I, Keep, DL))
        Bits |= C.bits(*A);
      else if (touchesSharedRange(I, Keep) || isMemoryCall(I, Keep))
        Bits |= C.bitsOfRanges();
    }
  return Bits;
}

template <typename T> SmallVector<T *, 16> outside(ArrayRef<T *> All, const SmallPtrSetImpl<BasicBlock *> &Plain) {
  SmallVector<T *, 16> Out;
  copy_if(All, std::back_inserter(Out), [&](T *I) { return !Plain.contains(I->getParent()); });
  return Out;
}

void dispatch(Parted &P, Runtime &R) {
  BasicBlock *Observed = dispatch(*P.F, *P.Coop, R, [&](IRBuilder<> &B) {
    return B.CreateICmpNE(P.Word.load(B), R.number(0), "refrain.observed");
  });
  BasicBlock *Whole = BasicBlock::Create(R.C, "refrain.whole", P.F, Observed);
  callInstead(*P.F, *P.Whole, Whole, R);
  // The entry goes to a choice between the two.
  BasicBlock *Choice = BasicBlock::Create(R.C, "refrain.choose", P.F, Whole);
  P.F->getEntryBlock().getTerminator()->replaceSuccessorWith(Observed, Choice);
  IRBuilder<> B(Choice);
  B.SetCurrentDebugLocation(Observed->front().getDebugLoc());
  B.CreateCondBr(B.CreateICmpSLT(P.Word.load(B), R.number(0)), Whole, Observed);
}

void registerRecords(Runtime &R) {
  Module &M = R.M;
  auto Bound = [&](StringRef Prefix) {
    auto *G = cast<GlobalVariable>(M.getOrInsertGlobal((Prefix + abi::PartSection).str(), R.I8));
    G->setVisibility(GlobalValue::HiddenVisibility);
    return G;
  };
  auto Tell = [&](const char *Name, const char *What) {
    Function *F = Function::Create(FunctionType::get(R.Void, false), GlobalValue::LinkOnceODRLinkage, Name, M);
    F->setVisibility(GlobalValue::HiddenVisibility);
    F->setComdat(M.getOrInsertComdat(Name));
    F->addFnAttr(Attribute::NoUnwind);
    F->setUWTableKind(UWTableKind::Default);
    IRBuilder<> B(BasicBlock::Create(R.C, "entry", F));
    R.call(B, What, R.Void, {Bound("__start_"), Bound("__stop_")});
    B.CreateRetVoid();
    return F;
  };
  // As the site table is registered (sites.cpp), and once more when the object goes away.
  Function *Begin = Tell("__refrain_begin_parts", "__refrain_register_parts");
  appendToGlobalCtors(M, Begin, 101, Begin);
  Function *End = Tell("__refrain_end_parts", "__refrain_forget_parts");
  appendToGlobalDtors(M, End, 101, End);
}

} // namespace

Part::Part(Runtime &R) : R(&R) {
  Placeholder = new GlobalVariable(R.M, R.I64, false, GlobalValue::ExternalLinkage, nullptr, "refrain.part.placeholder");
}

uint64_t Part::bit(uint32_t Element) {
  auto Found = find(Elements, Element);
  size_t At = Found - Elements.begin();
  if (Found == Elements.end())
    Elements.push_back(Element);
  // The last one is that of all elements for which there is no other.
  return 1ull << std::min<size_t>(At, abi::PartBits - 1);
}

LoadInst *Part::load(IRBuilder<> &B) { return B.CreateAlignedLoad(R->I64, Placeholder, Align(8), "refrain.part"); }

GlobalVariable *Part::emit() {
  LLVMContext &C = R->C;
  std::vector<uint32_t> Words = {static_cast<uint32_t>(Elements.size())};
  Words.insert(Words.end(), Elements.begin(), Elements.end());
  if (Words.size() % 2)
    Words.push_back(0);
  Constant *Ids = ConstantDataArray::get(C, Words);
  StructType *T = StructType::get(C, {R->I64, Ids->getType()});
  auto *Record = new GlobalVariable(R->M, T, false, GlobalValue::PrivateLinkage,
                                    ConstantStruct::get(T, {R->number(0), Ids}), "refrain.part");
  Record->setSection(abi::PartSection);
  Record->setAlignment(Align(8));
  Placeholder->replaceAllUsesWith(Record);
  Placeholder->eraseFromParent();
  return Record;
}

Function *cloneForPart(Function &F) {
  SmallVector<bool, 8> Alone;
  for (Argument &A : F.args())
    Alone.push_back(A.hasNoAliasAttr());
  Function *Clone = cloneForObservation(F, abi::CoopSuffix);
  // There are no windows here that an access could be moved out of: the promises hold.
  for (auto [A, Is] : zip(Clone->args(), Alone))
    if (Is)
      A.addAttr(Attribute::NoAlias);
  return Clone;
}

void observePart(Function &Coop, Part &Word, FunctionAnalysisManager &FAM, Filters &Keep, Runtime &R, SiteTable &Sites,
                 Why *Asked, function_ref<void()> Order) {
  gatherAllocas(Coop);
  expandSmallRanges(Coop, Keep);
  Chosen C(Coop, Word, R, Sites);
  auto Wanted = [&](ArrayRef<BasicBlock *> Blocks) { return bitsOf(Blocks, C, Keep, R.DL); };
  auto Test = [&](IRBuilder<> &B, uint64_t Bits) { return C.any(B, Bits); };
  SmallPtrSet<BasicBlock *, 16> Plain;
  if (!Coop.hasOptNone())
    Plain = addPlainLoops(Coop, FAM, Wanted, Test);
  std::vector<Tested> All;
  for (BasicBlock &BB : Coop)
    if (!Plain.contains(&BB))
      for (const std::vector<Access> &Group : formGroups(BB, Keep, R.DL, /*Several=*/true)) {
        split(Group, C, All);
        if (Asked)
          Asked->part(Group);
      }
  SmallVector<MemIntrinsic *, 16> Ranges = outside<MemIntrinsic>(sharedRanges(Coop, Keep), Plain);
  SmallVector<CallBase *, 16> Calls = outside<CallBase>(memoryCalls(Coop, Keep), Plain);
  if (!Ranges.empty() || !Calls.empty()) {
    IRBuilder<> B(C.Loaded->getNextNode());
    Value *Unnamed = C.any(B, C.bitsOfRanges());
    lowerRanges(Ranges, R, Sites, Unnamed);
    lowerMemoryCalls(Calls, R, Sites, Unnamed);
  }
  Order();
  // From the last to the first: a later group's block is cut off before an earlier one is looked at.
  for (const Tested &T : reverse(All))
    emitChoice(T.Group, R, Sites, [&](IRBuilder<> &B) { return C.any(B, T.Bits); });
}

void dispatchParts(MutableArrayRef<Parted> All, MutableArrayRef<Part> Others, Runtime &R) {
  SmallVector<GlobalValue *, 64> Records;
  for (Parted &P : All) {
    dispatch(P, R);
    Records.push_back(P.Word.emit());
  }
  for (Part &P : Others)
    Records.push_back(P.emit());
  if (Records.empty())
    return;
  appendToUsed(R.M, Records);
  registerRecords(R);
}

} // namespace refrain
