#include "std_inline.h"
#include "sites.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"

using namespace llvm;

namespace refrain {

namespace {

constexpr unsigned InstructionsMax = 60;
// Of functions that access atomics themselves: compare_exchange has a branch for each pair of orders.
constexpr unsigned AtomicInstructionsMax = 400;
// atomic_compare_exchange, AtomicUsize::compare_exchange, try_update, fetch_update, Weak::upgrade; or atomic_swap, AtomicU32::swap,
// futex::Mutex::unlock, MutexGuard::drop, drop_in_place: so deep.
constexpr unsigned Levels = 5;

bool isSmallAndOfStd(const Function &F, unsigned Max) {
  if (F.isDeclaration() || F.isVarArg() || F.hasFnAttribute(Attribute::NoInline) || F.hasOptNone() ||
      F.hasFnAttribute(Attribute::Naked) || F.getInstructionCount() > Max)
    return false;
  const DISubprogram *S = F.getSubprogram();
  return S && isOfStandardLibrary(S);
}

const Function *callee(const Instruction &I) {
  auto *Call = dyn_cast<CallBase>(&I);
  return Call ? Call->getCalledFunction() : nullptr;
}

} // namespace

PreservedAnalyses StdInlinePass::run(Module &M, ModuleAnalysisManager &) {
  SmallPtrSet<const Function *, 32> Chosen;
  auto Calls = [](const Function &F, auto Wanted) {
    return any_of(instructions(F), [&](const Instruction &I) { return Wanted(I, callee(I)); });
  };
  for (unsigned Level = 0; Level < Levels; Level++) {
    SmallVector<Function *, 32> Next;
    for (Function &F : M)
      if (!Chosen.contains(&F) && isSmallAndOfStd(F, Level == 0 ? AtomicInstructionsMax : InstructionsMax) &&
          !Calls(F, [&](const Instruction &, const Function *C) { return C == &F; }) &&
          Calls(F, [&](const Instruction &I, const Function *C) { return Level == 0 ? I.isAtomic() : Chosen.contains(C); }))
        Next.push_back(&F);
    for (Function *F : Next) {
      Chosen.insert(F);
      F->addFnAttr(Attribute::AlwaysInline);
    }
  }
  return Chosen.empty() ? PreservedAnalyses::all() : PreservedAnalyses::none();
}

} // namespace refrain
