// Entry point: the order of work on a module. Start reading here.
//
//   unit         with --det: the bitcode of the module as it is, and numbers for traces (units.h)
//   names        what every access means in the source, as metadata (the first pass of all, names.h)
//   why          with --why: accesses at the lines that were asked about, before and while things are done to them (why.h)
//   lockset      which globals need no observation at all (whole module), because a lock orders them
//   settled      and which because they are only read once there are threads
//   per function inline assembly, stores that may be late, then
//                plain f: with --det two versions of it in one (counted.h); atomics, sites of synchronisation and allocation calls, instructions that ask the machine
//                f.coop: with --coop, what was chosen of f.refrain's accesses (parts.h)
//                f.refrain: loops, then ranges and string calls, then groups of plain accesses (of quiet code by calls, quiet.h), then the same as f. With --det it becomes part of f (embedded.h)
//   teams        of OpenMP: the runtime is told of them
//   site table   written and registered last
//
// With -flto all of this is done once, to the whole program, while it is linked (whole.h).
#include "accesses.h"
#include "assembly.h"
#include "atomics.h"
#include "calls.h"
#include "clones.h"
#include "counted.h"
#include "declared.h"
#include "embedded.h"
#include "gathers.h"
#include "groups.h"
#include "instructions.h"
#include "leaves.h"
#include "late_stores.h"
#include "lockset.h"
#include "loops.h"
#include "options.h"
#include "parts.h"
#include "quiet.h"
#include "settled.h"
#include "std_inline.h"
#include "teams.h"
#include "traced.h"
#include "units.h"
#include "why.h"
#include "whole.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace refrain {
namespace {

class Instrumentor {
public:
  Instrumentor(Module &M, FunctionAnalysisManager &FAM) : M(M), FAM(FAM), Elements(M), Keep(M), R(M), Sites(M, Elements) {}

  void run() {
    if (Options.Memory)
      generaliseGathers(M);
    if (Options.Counted)
      Kept.emplace(M);
    declareAllocators(M);
    if (Options.Memory && Options.Lockset)
      Keep.ConsistentlyLocked = consistentlyLocked(M);
    if (Options.Memory && Options.Settled)
      Keep.Settled = settledGlobals(M);
    if (Options.Stats)
      for (const GlobalVariable &G : M.globals()) {
        if (Keep.Settled.contains(&G))
          errs() << "refrain: " << G.getName() << ": settled\n";
        else if (Keep.ConsistentlyLocked.contains(&G))
          errs() << "refrain: " << G.getName() << ": consistently locked\n";
      }
    Asked = Why::asked(M, Options, Keep, Sites, Elements);
    dropMemoryPromises(M);
    SmallVector<Function *, 64> Work = functions();
    // All of them before any is changed: what is said of globals is found in all of their uses.
    if (Asked)
      for (Function *F : Work) {
        Keep.enter(*F);
        Asked->look(*F);
      }
    for (Function *F : Work)
      function(*F);
    for (auto [F, Clone] : Clones)
      dispatch(*F, *Clone, R);
    dispatchParts(Parts, Undivided, R);
    for (auto [F, Clone] : Clones)
      callClones(*Clone);
    for (const Parted &P : Parts)
      callClones(*P.Whole);
    for (const Embedded &E : Embeddings)
      embed(E, R);
    announceTeams(R);
    if (Kept)
      Kept->emit(Sites);
    Sites.emit();
    if (Asked)
      Asked->write();
    // Last: what was kept knows instructions that are gone then.
    for (const Leaf &L : Leaves)
      separate(L, R);
  }

private:
  // Those that are instrumented; the others are left as they are.
  SmallVector<Function *, 64> functions() {
    SmallPtrSet<Function *, 4> Resolvers;
    for (GlobalIFunc &I : M.ifuncs())
      if (Function *F = I.getResolverFunction())
        Resolvers.insert(F);
    SmallVector<Function *, 64> Work;
    for (Function &F : M) {
      if (F.isDeclaration())
        continue;
      const char *Untouched = nullptr;
      if (F.hasAvailableExternallyLinkage())
        Untouched = "this copy of the function is there for the optimiser alone; what is executed is in another module";
      else if (F.hasFnAttribute(Attribute::Naked))
        Untouched = "a naked function consists of assembly alone";
      else if (Resolvers.contains(&F))
        Untouched = "the function chooses among others (ifunc), which it does before relocation is complete: nothing of the recorder can be reached yet";
      if (!Untouched)
        Work.push_back(&F);
      else if (Asked)
        Asked->leaveOut(F, Untouched);
    }
    return Work;
  }

  bool observesMemory(Function &F) {
    for (Instruction &I : instructions(F)) {
      if (plainAccess(I, Keep, R.DL))
        return true;
      if (touchesSharedRange(I, Keep))
        return true;
    }
    return hasMemoryCalls(F, Keep);
  }

  void function(Function &F) {
    Keep.enter(F);
    observeAssembly(F, Keep, R, Sites, Asked.get());
    delayStores(F, Keep, R, Sites);
    if (Options.Memory && observesMemory(F)) {
      if (Options.Counted && canCount(F)) {
        observeAndCount(F);
      } else if (canClone(F)) {
        if (Options.Counted)
          announceUncounted(F, R, Sites);
        Function *Clone = cloneForObservation(F), *Coop = makesParts() ? cloneForPart(F) : nullptr;
        Keep.enter(*Clone);
        observe(*Clone, /*InPlace=*/false);
        if (Coop)
          observeAPart(F, *Clone, *Coop);
        else
          Clones.push_back({&F, Clone});
        CloneOf[&F] = Clone;
      } else {
        if (Options.Counted)
          announceUncounted(F, R, Sites);
        if (makesParts())
          Undivided.emplace_back(R);
        observe(F, /*InPlace=*/true);
        return;
      }
    } else if (Options.Memory && Options.Counted && isWorthTracing(F) && canCount(F)) {
      // Nothing of it is shared, so two versions are enough.
      keepFrames(F);
      countTransfers(F, Keep, R, Sites, *Kept);
    }
    order(F);
  }

  bool makesParts() const { return Options.Parts && !Options.Counted; }

  // An i1 for a function without clones, in which something is observed if anything is.
  Value *observedInPlace(IRBuilder<> &B, const std::vector<std::vector<Access>> &Groups) {
    if (!makesParts())
      return R.memoryObserved(B);
    Part &Word = Undivided.back();
    for (const std::vector<Access> &Group : Groups)
      for (const Access &A : Group)
        Word.bit(Sites.elementOf(*A.I, A.Write ? abi::SiteKind::Store : abi::SiteKind::Load));
    Word.bit(abi::SpeUnnamed);
    return B.CreateICmpNE(Word.load(B), R.number(0), "refrain.observed");
  }

  void observeAPart(Function &F, Function &Whole, Function &Coop) {
    Part Word(R);
    Keep.enter(Coop);
    observePart(Coop, Word, FAM, Keep, R, Sites, Asked.get(), [&] { order(Coop); });
    Parts.push_back({&F, &Whole, &Coop, std::move(Word)});
  }

  // Three versions in one function, or in two: counted.h, embedded.h, leaves.h.
  void observeAndCount(Function &F) {
    markShared(F, Keep, R);
    if (isLeaf(F))
      Leaves.push_back(copyPlain(F));
    Embedded E = copyToEmbed(F);
    Keep.enter(*E.Copy);
    Keep.IsMarked = true;
    observe(*E.Copy, /*InPlace=*/false);
    Keep.IsMarked = false;
    unmark(*E.Copy);
    FAM.clear(*E.Copy, E.Copy->getName());
    countTransfers(F, Keep, R, Sites, *Kept);
    Embeddings.push_back(std::move(E));
  }

  // What is done at every scope: atomics, synchronisation, and what comes from the machine.
  void order(Function &F) {
    recordInstructions(F, R);
    lowerAtomics(F, Keep, R, Sites);
    markCalls(F, R, Sites);
  }

  void observe(Function &F, bool InPlace) {
    gatherAllocas(F);
    expandSmallRanges(F, Keep);
    SmallPtrSet<BasicBlock *, 16> Clean;
    if (Options.Loops && !InPlace && !F.hasOptNone())
      Clean = versionLoops(F, FAM, Keep, R, Asked.get());
    std::vector<std::vector<Access>> Groups;
    SmallPtrSet<BasicBlock *, 16> Quiet;
    if (Options.Outline && !InPlace)
      Quiet = quietBlocks(F, FAM);
    for (BasicBlock &BB : F)
      if (!Clean.contains(&BB))
        for (std::vector<Access> &G : formGroups(BB, Keep, R.DL, Options.Groups))
          Groups.push_back(std::move(G));
    IRBuilder<> B(&*F.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    if (DISubprogram *S = F.getSubprogram())
      B.SetCurrentDebugLocation(DILocation::get(R.C, S->getScopeLine(), 0, S));
    Value *Self = R.self(B);
    Value *Observed = InPlace ? observedInPlace(B, Groups) : nullptr;
    size_t Accesses = 0;
    lowerRanges(sharedRanges(F, Keep), R, Sites, Observed);
    lowerMemoryCalls(memoryCalls(F, Keep), R, Sites, Observed);
    // Before the groups, whose checks contain atomic loads of our own.
    order(F);
    // From the last to the first: a later group's block is cut off before an earlier one is looked at.
    for (const std::vector<Access> &G : reverse(Groups)) {
      bool IsCalled = Quiet.contains(G.front().I->getParent()) && canCallChecked(G, R);
      if (Asked)
        Asked->group(G, IsCalled, InPlace);
      if (IsCalled)
        callChecked(G, R, Sites);
      else
        emitGroup(G, sitesOf(G, Sites), R, Self, Observed);
      Accesses += G.size();
    }
    if (Options.Stats)
      errs() << "refrain: " << F.getName() << ": " << Accesses << " accesses in " << Groups.size() << " groups\n";
  }

  // Inside observed code the choice has been made: call the observed clone of a callee directly.
  void callClones(Function &F) {
    for (Instruction &I : instructions(F)) {
      auto *Call = dyn_cast<CallBase>(&I);
      Function *Callee = Call ? Call->getCalledFunction() : nullptr;
      if (!Callee || Callee->isInterposable())
        continue;
      if (Function *Clone = CloneOf.lookup(Callee); Clone && Clone->getFunctionType() == Call->getFunctionType())
        Call->setCalledFunction(Clone);
    }
  }

  Module &M;
  FunctionAnalysisManager &FAM;
  struct Options Options;
  Names Elements;
  Filters Keep;
  Runtime R;
  SiteTable Sites;
  std::unique_ptr<Why> Asked;
  std::optional<Unit> Kept;
  std::vector<std::pair<Function *, Function *>> Clones;
  std::vector<Parted> Parts;
  // Of functions without clones.
  std::vector<Part> Undivided;
  std::vector<Embedded> Embeddings;
  std::vector<Leaf> Leaves;
  DenseMap<Function *, Function *> CloneOf;
};

struct RefrainPass : PassInfoMixin<RefrainPass> {
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    if (M.getNamedMetadata(abi::ModuleMark))
      return PreservedAnalyses::all();
    LLVMContext &C = M.getContext();
    M.getOrInsertNamedMetadata(abi::ModuleMark)->addOperand(MDNode::get(C, {MDString::get(C, M.getSourceFileName())}));
    if (NamedMDNode *Held = M.getNamedMetadata(HeldMark))
      M.eraseNamedMetadata(Held);
    auto &FAM = MAM.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
    Instrumentor(M, FAM).run();
    forgetNames(M);
    if (Options().Verify && verifyModule(M, &errs()))
      report_fatal_error("refrain: the instrumented module is not valid");
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; } // also at -O0 and in optnone functions
};

// What will be merged with the rest of the program waits for it.
void addPass(ModulePassManager &MPM, ThinOrFullLTOPhase Phase) {
  if (Phase == ThinOrFullLTOPhase::FullLTOPreLink)
    MPM.addPass(HoldPass());
  else
    MPM.addPass(RefrainPass());
}

} // namespace
} // namespace refrain

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "refrain", "0.1", [](PassBuilder &PB) {
            PB.registerPipelineStartEPCallback(
                [](ModulePassManager &MPM, OptimizationLevel) {
                  MPM.addPass(refrain::ReleasePass());
                  MPM.addPass(refrain::NamePass());
                });
            // After simplification and inlining, before vectorisation: redundant accesses are gone, and loops that
            // are left plain can still be vectorised. Without optimisation coroutines are split late, so we come last.
            PB.registerOptimizerEarlyEPCallback(
                [](ModulePassManager &MPM, OptimizationLevel Level, ThinOrFullLTOPhase Phase) {
                  if (Level != OptimizationLevel::O0)
                    refrain::addPass(MPM, Phase);
                });
            PB.registerOptimizerLastEPCallback(
                [](ModulePassManager &MPM, OptimizationLevel, ThinOrFullLTOPhase Phase) { refrain::addPass(MPM, Phase); });
            PB.registerPipelineParsingCallback(
                [](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
                  if (Name == "refrain")
                    MPM.addPass(refrain::RefrainPass());
                  else if (Name == "refrain-names")
                    MPM.addPass(refrain::NamePass());
                  else if (Name == "refrain-std-inline")
                    MPM.addPass(refrain::StdInlinePass());
                  return Name == "refrain" || Name == "refrain-names" || Name == "refrain-std-inline";
                });
          }};
}
