#include "filters.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/CaptureTracking.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"

using namespace llvm;

namespace refrain {

namespace {

// Another thread needs a pointer with provenance to reach the object; comparing its address gives none away.
bool escapes(const Value *Object) {
  return capturesAnything(PointerMayBeCaptured(Object, /*ReturnCaptures=*/true, CaptureComponents::Provenance));
}

} // namespace

bool forEachDirectAccess(const GlobalVariable &G, function_ref<bool(const Instruction &)> Visit) {
  SmallVector<const Value *, 16> Work = {&G};
  while (!Work.empty()) {
    const Value *V = Work.pop_back_val();
    for (const Use &U : V->uses()) {
      const User *W = U.getUser();
      if (auto *Address = dyn_cast<GEPOperator>(W)) {
        if (!Address->hasAllConstantIndices())
          return false;
        Work.push_back(W);
      } else if (isa<LoadInst>(W)) {
        if (!Visit(*cast<Instruction>(W)))
          return false;
      } else if (auto *S = dyn_cast<StoreInst>(W); S && U.getOperandNo() == StoreInst::getPointerOperandIndex()) {
        if (!Visit(*S))
          return false;
      } else {
        return false;
      }
    }
  }
  return true;
}

Filters::Filters(Module &M) {
  // Decided for all globals at once, before any function changes: instrumentation adds uses of their addresses.
  for (GlobalVariable &G : M.globals())
    Known[&G] = ruleOfGlobal(&G);
}

Rule Filters::ruleOfGlobal(const GlobalVariable *G) const {
  // Constants lie in read-only memory.
  if (G->isConstant())
    return Rule::Constant;
  // Counters of coverage and profiling: the program never reads them, so their values cannot steer it.
  if (G->getSection().starts_with("__llvm_prf") || G->getName().starts_with("__llvm_gcov"))
    return Rule::Profile;
  if (!G->hasLocalLinkage())
    return Rule::Shared;
  if (G->isThreadLocal()) {
    // Each thread has its own, and since the address does not leave the thread, nobody else can name it. A
    // thread-local that other modules can see may have its address taken there, so it is observed.
    for (const User *U : G->users()) {
      auto *Address = dyn_cast<IntrinsicInst>(U);
      if (!Address || Address->getIntrinsicID() != Intrinsic::threadlocal_address || escapes(Address))
        return Rule::Shared;
    }
    return Rule::ThreadLocal;
  }
  // Visible in this module only, its address used for loads alone: it keeps its initial value for ever.
  bool OnlyRead = forEachDirectAccess(*G, [](const Instruction &I) { return isa<LoadInst>(I); });
  return OnlyRead ? Rule::NeverWritten : Rule::Shared;
}

void Filters::enter(const Function &F) {
  auto Keeps = [](const Value &Object, Rule Why) { return escapes(&Object) ? Rule::Shared : Why; };
  for (const Argument &A : F.args())
    // A by-value argument is the callee's own copy.
    if (A.hasByValAttr())
      Known[&A] = Keeps(A, Rule::ByValue);
  for (const Instruction &I : instructions(F)) {
    auto *II = dyn_cast<IntrinsicInst>(&I);
    if (isa<AllocaInst>(I)) {
      // A local variable whose address is not stored, returned or passed to anyone who might keep it.
      Known[&I] = Keeps(I, Rule::Stack);
    } else if (II && II->getIntrinsicID() == Intrinsic::threadlocal_address) {
      Known[&I] = Known.lookup(II->getArgOperand(0));
    } else if (isNoAliasCall(&I)) {
      // Fresh memory (malloc, new) that this function keeps to itself until it is freed.
      Known[&I] = Keeps(I, Rule::FreshHeap);
    }
  }
}

Rule Filters::ruleOfObject(const Value *Object) const {
  if (auto *G = dyn_cast<GlobalVariable>(Object)) {
    if (Settled.contains(G))
      return Rule::Settled;
    if (ConsistentlyLocked.contains(G))
      return Rule::Locked;
  }
  // Buffers of our own are not in the table.
  if (auto *A = dyn_cast<AllocaInst>(Object); A && A->hasMetadata("refrain.scratch"))
    return Rule::Scratch;
  return Known.lookup(Object);
}

SmallVector<Filters::Found, 4> Filters::objects(const Value *Pointer) const {
  // Segment-relative address spaces are how x86 names a thread's own block.
  if (Pointer->getType()->getPointerAddressSpace() != 0)
    return {{Pointer, Rule::Segment}};
  SmallVector<const Value *, 4> Objects;
  getUnderlyingObjects(Pointer, Objects, nullptr, /*MaxLookup=*/12);
  SmallVector<Found, 4> All;
  for (const Value *O : Objects)
    All.push_back({O, ruleOfObject(O)});
  return All;
}

bool Filters::isPrivate(const Value *Pointer) {
  SmallVector<Found, 4> All = objects(Pointer);
  return !All.empty() && all_of(All, [](const Found &F) { return F.Why != Rule::Shared; });
}

Rule Filters::ruleOf(const LoadInst &L) const {
  // The compiler's own promise that the location never changes.
  if (L.hasMetadata(LLVMContext::MD_invariant_load))
    return Rule::Invariant;
  // An entry of a C++ virtual table: the table's address came out of an object's hidden pointer, and tables are
  // constants. The hidden pointer itself is observed.
  auto *Table = dyn_cast<LoadInst>(L.getPointerOperand()->stripInBoundsConstantOffsets());
  MDNode *Tag = Table ? Table->getMetadata(LLVMContext::MD_tbaa) : nullptr;
  return Tag && Tag->isTBAAVtableAccess() ? Rule::VirtualTable : Rule::Shared;
}

} // namespace refrain
