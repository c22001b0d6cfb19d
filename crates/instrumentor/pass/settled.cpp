// What is written before there is another thread, and never after, needs no order: whoever reads it was created behind all writes, or is the
// thread that made them.
//
//   early     a place of the program that is reached only before the main thread has done anything by which another thread could come to run
//             code of this module: in main, in constructors, and in local functions that are only called from early places;
//   letting   others in: a call of a function outside this module, unless it is known to call nothing back (quiet_library.h); of one inside that
//             does so; through a pointer; a second return; assembly; and storing a pointer where others may find it;
//   doors     through which a thread may come in that was there before main: functions that other objects can name, or find in tables that they
//             can name, what these call, and, if anything of it calls through a pointer, every function whose address is taken.
//
// A static variable is settled if only this module can name it, every write of it is early, and no door leads to a read of it. main is called
// once, by the code that starts the process: it must not be used by anything here.
#include "settled.h"
#include "quiet_library.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"

using namespace llvm;

namespace refrain {

namespace {

class Analysis {
public:
  explicit Analysis(const Module &M) : M(M) {}

  DenseSet<const GlobalVariable *> run() {
    DenseSet<const GlobalVariable *> Out;
    const Function *Main = M.getFunction("main");
    if (!Main || Main->isDeclaration() || !Main->use_empty())
      return Out;
    for (const Function &F : M)
      if (!F.isDeclaration())
        Functions.push_back(&F);
    findWhoLetsIn();
    findConstructors();
    if (any_of(Constructors, [&](const Function *F) { return LetsIn.contains(F); }))
      return Out;
    findEarly(*Main);
    findDoors(*Main);
    for (const GlobalVariable &G : M.globals())
      if (G.hasLocalLinkage() && G.hasInitializer() && !G.isThreadLocal() && !G.isConstant() && isSettled(G))
        Out.insert(&G);
    return Out;
  }

private:
  // Can other objects, or memory that they know, hold this address without our storing it there?
  static bool isOwn(const Value *Object) {
    if (auto *G = dyn_cast<GlobalVariable>(Object))
      return G->hasLocalLinkage() && none_of(G->users(), [](const User *U) { return isa<Constant>(U) && !isa<GEPOperator>(U); });
    return isa<AllocaInst>(Object) || isNoAliasCall(Object);
  }

  bool letsIn(const CallBase &Call) const {
    if (isa<IntrinsicInst>(Call)) // Those of coroutines call what they are given.
      return Call.mayReadOrWriteMemory() && !Call.hasFnAttr(Attribute::NoCallback);
    if (Call.isInlineAsm())
      return !Call.doesNotAccessMemory() || cast<InlineAsm>(Call.getCalledOperand())->hasSideEffects();
    const Function *Callee = Call.getCalledFunction();
    if (!Callee || Callee->isInterposable() || Call.hasFnAttr(Attribute::ReturnsTwice))
      return true;
    if (!Callee->isDeclaration())
      return LetsIn.contains(Callee);
    return !isRegistration(*Callee) && !callsNothingBack(Callee->getName());
  }

  // What it is given runs when the process ends: a door (findDoors).
  static bool isRegistration(const Function &Callee) { return Callee.getName() == "__cxa_atexit"; }

  bool letsIn(const Instruction &I) const {
    if (auto *Call = dyn_cast<CallBase>(&I); Call && letsIn(*Call))
      return true;
    const Value *To = nullptr;
    if (auto *S = dyn_cast<StoreInst>(&I); S && S->getValueOperand()->getType()->isPtrOrPtrVectorTy())
      To = S->getPointerOperand();
    else if (auto *T = dyn_cast<MemTransferInst>(&I))
      To = T->getRawDest();
    else if (isa<AtomicRMWInst>(I) || isa<AtomicCmpXchgInst>(I))
      return true;
    if (!To)
      return false;
    SmallVector<const Value *, 4> Objects;
    getUnderlyingObjects(To, Objects, nullptr, /*MaxLookup=*/12);
    return !all_of(Objects, isOwn);
  }

  void findWhoLetsIn() {
    for (bool Changed = true; Changed;) {
      Changed = false;
      for (const Function *F : Functions)
        if (!LetsIn.contains(F) && any_of(instructions(*F), [&](const Instruction &I) { return letsIn(I); })) {
          LetsIn.insert(F);
          Changed = true;
        }
    }
  }

  void findConstructors() {
    const GlobalVariable *List = M.getNamedGlobal("llvm.global_ctors");
    auto *All = List && List->hasInitializer() ? dyn_cast<ConstantArray>(List->getInitializer()) : nullptr;
    for (unsigned I = 0; All && I < All->getNumOperands(); I++)
      if (auto *Entry = dyn_cast<ConstantStruct>(All->getOperand(I)))
        if (auto *F = dyn_cast<Function>(Entry->getOperand(1)->stripPointerCasts()))
          Constructors.insert(F);
  }

  // Calls Visit for the instructions of F before which nobody has been let in.
  void visitEarly(const Function &F, function_ref<void(const Instruction &)> Visit) const {
    SmallPtrSet<const BasicBlock *, 32> Late;
    SmallVector<const BasicBlock *, 32> Work;
    auto IsLateBehind = [&](const BasicBlock &BB) { return any_of(BB, [&](const Instruction &I) { return letsIn(I); }); };
    for (const BasicBlock &BB : F)
      if (IsLateBehind(BB))
        Work.push_back(&BB);
    while (!Work.empty())
      for (const BasicBlock *Next : successors(Work.pop_back_val()))
        if (Late.insert(Next).second)
          Work.push_back(Next);
    for (const BasicBlock &BB : F) {
      if (Late.contains(&BB))
        continue;
      for (const Instruction &I : BB) {
        Visit(I);
        if (letsIn(I))
          break;
      }
    }
  }

  // From all that could be, those are taken away that are called from elsewhere.
  void findEarly(const Function &Main) {
    DenseSet<const Function *> Candidates = {&Main};
    for (const Function *F : Functions) {
      bool IsCalledHere = F->hasLocalLinkage() && !F->use_empty() && all_of(F->uses(), [&](const Use &U) {
        auto *Call = dyn_cast<CallBase>(U.getUser());
        return Call ? Call->isCallee(&U) : Constructors.contains(F) && isa<ConstantStruct>(U.getUser());
      });
      if (IsCalledHere)
        Candidates.insert(F);
    }
    for (bool Changed = true; Changed;) {
      Changed = false;
      Early.clear();
      for (const Function *F : Candidates)
        visitEarly(*F, [&](const Instruction &I) { Early.insert(&I); });
      for (const Function *F : Functions) {
        if (!Candidates.contains(F) || F == &Main)
          continue;
        bool IsEarly = all_of(F->users(), [&](const User *U) { return !isa<Instruction>(U) || Early.contains(cast<Instruction>(U)); });
        if (!IsEarly) {
          Candidates.erase(F);
          Changed = true;
        }
      }
    }
  }

  void findDoors(const Function &Main) {
    SmallVector<const Function *, 32> Work;
    auto Open = [&](const Function &F) {
      if (!F.isDeclaration() && Doors.insert(&F).second)
        Work.push_back(&F);
    };
    bool IsAnyCalled = false;
    auto OpenWhoseAddressIsTaken = [&] {
      if (IsAnyCalled)
        return;
      IsAnyCalled = true;
      for (const Function *F : Functions)
        if (F->hasAddressTaken())
          Open(*F);
    };
    for (const Function *F : Functions) {
      if (!F->hasLocalLinkage() && F != &Main)
        Open(*F);
      // They need no code of ours to call it.
      if (isInTableOfOthers(*F))
        Open(*F);
      for (const Instruction &I : instructions(*F))
        if (auto *Call = dyn_cast<CallBase>(&I); Call && Call->getCalledFunction() && isRegistration(*Call->getCalledFunction()))
          openArguments(*Call, Open);
    }
    while (!Work.empty())
      for (const Instruction &I : instructions(*Work.pop_back_val()))
        if (auto *Call = dyn_cast<CallBase>(&I); Call && !isa<IntrinsicInst>(I)) {
          if (const Function *Callee = Call->getCalledFunction())
            Open(*Callee);
          else if (!Call->isInlineAsm())
            OpenWhoseAddressIsTaken();
          // What is passed on may be called.
          openArguments(*Call, Open);
        }
  }

  template <typename Opens> static void openArguments(const CallBase &Call, Opens Open) {
    for (const Use &A : Call.args())
      if (auto *F = dyn_cast<Function>(A->stripPointerCasts()))
        Open(*F);
  }

  // Is its address in memory that other objects can name, or reach from there? Of what only we can name, an address has to be stored first.
  bool isInTableOfOthers(const Function &F) const {
    SmallVector<const Constant *, 8> Work = {&F};
    SmallPtrSet<const Constant *, 8> Seen = {&F};
    while (!Work.empty())
      for (const User *U : Work.pop_back_val()->users()) {
        auto *C = dyn_cast<Constant>(U);
        if (!C || !Seen.insert(C).second)
          continue;
        // Constructors are called by the start code.
        if (auto *G = dyn_cast<GlobalValue>(C); G && !G->hasLocalLinkage() && G->getName() != "llvm.global_ctors")
          return true;
        Work.push_back(C);
      }
    return false;
  }

  bool isSettled(const GlobalVariable &G) const {
    SmallVector<const Value *, 16> Work = {&G};
    SmallPtrSet<const Value *, 16> Seen = {&G};
    bool IsWritten = false;
    while (!Work.empty()) {
      for (const Use &U : Work.pop_back_val()->uses()) {
        const User *W = U.getUser();
        if ((isa<GEPOperator>(W) && U.getOperandNo() == 0) || isa<PHINode>(W) || isa<SelectInst>(W)) {
          if (Seen.insert(W).second)
            Work.push_back(W);
          continue;
        }
        auto *I = dyn_cast<Instruction>(W);
        if (!I || !isSettledUse(U, *I, IsWritten))
          return false;
      }
    }
    return IsWritten;
  }

  bool isSettledUse(const Use &U, const Instruction &I, bool &IsWritten) const {
    if (isa<ICmpInst>(I))
      return true;
    bool Writes = true;
    if (isa<LoadInst>(I))
      Writes = false;
    else if (auto *S = dyn_cast<StoreInst>(&I); S && U.getOperandNo() != StoreInst::getPointerOperandIndex())
      return false;
    else if (auto *Call = dyn_cast<CallBase>(&I)) {
      if (!Call->isArgOperand(&U) || !Call->doesNotCapture(Call->getArgOperandNo(&U)))
        return false;
      Writes = !Call->onlyReadsMemory(Call->getArgOperandNo(&U));
      if (Writes && letsIn(I))
        return false;
    } else if (!isa<StoreInst>(I))
      return false;
    if (I.isAtomic())
      return false;
    IsWritten |= Writes;
    return Writes ? Early.contains(&I) : !Doors.contains(I.getFunction());
  }

  const Module &M;
  SmallVector<const Function *, 64> Functions;
  DenseSet<const Function *> LetsIn, Constructors, Doors;
  DenseSet<const Instruction *> Early;
};

} // namespace

DenseSet<const GlobalVariable *> settledGlobals(const Module &M) { return Analysis(M).run(); }

} // namespace refrain
