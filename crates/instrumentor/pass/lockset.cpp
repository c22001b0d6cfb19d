// Lemma 4.2 of the Light paper, proven statically.
//
// If every access to a location happens while holding one and the same mutex, then the recorded order of that mutex's
// operations orders the accesses as well, and they need no record of their own. The proof here is per module, so it
// speaks only of things no other module can name:
//
//   mutex   a global of local linkage (or a field of one) whose address is only passed to pthread mutex and condition
//           functions, and which is never given attributes (so it is neither recursive nor robust: locking it again
//           while holding it never returns, and locking it otherwise never fails); or a read-write lock in the same way. Where locking that fails,
//           the thread holds it already, for writing. It orders two accesses if it is held at both, and for writing at each that writes: the
//           uses of a read-write lock are one chain of events, and sections of readers come between two of writers as they did;
//   data    a global of local linkage whose address is only used to load and store, not atomically.
//
// Held sets are computed by a forward must-analysis over the functions of the module:
//
//   - lock adds, unlock removes, trylock and timedlock add on the branch where their result was compared with 0 at
//     once, waiting on a condition variable gives the mutex back and takes it again;
//   - a call removes what its callee may release *on behalf of its caller*: what it unlocks without having locked it
//     itself. Only functions of this module can; code outside can reach those that are visible or whose address is
//     taken. A call of a function defined here adds what that function has always acquired when it returns;
//   - a local function that is only called directly starts with what is held at all its call sites, any other with
//     nothing;
//   - where setjmp returns, nothing is held: it may be the second time.
#include "lockset.h"
#include "filters.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include <map>

using namespace llvm;

namespace refrain {

namespace {

// One bit per mutex that says that it is held, and one above these that it is held for writing. A mutex is always held for writing.
using Held = unsigned __int128;
constexpr Held Everything = ~Held(0);
constexpr unsigned MutexesMax = 64;

uint64_t inAnyWay(Held All) { return static_cast<uint64_t>(All); }
uint64_t forWriting(Held All) { return static_cast<uint64_t>(All >> MutexesMax); }

enum class LockCall { None, Lock, TryLock, ReadLock, TryReadLock, Unlock, Neutral };

LockCall classifyReadWrite(const CallBase &Call, StringRef Name) {
  if (Name == "pthread_rwlock_rdlock")
    return LockCall::ReadLock;
  if (Name == "pthread_rwlock_wrlock")
    return LockCall::Lock;
  if (Name == "pthread_rwlock_tryrdlock" || Name == "pthread_rwlock_timedrdlock" || Name == "pthread_rwlock_clockrdlock")
    return LockCall::TryReadLock;
  if (Name == "pthread_rwlock_trywrlock" || Name == "pthread_rwlock_timedwrlock" || Name == "pthread_rwlock_clockwrlock")
    return LockCall::TryLock;
  if (Name == "pthread_rwlock_unlock")
    return LockCall::Unlock;
  bool IsInit = Name == "pthread_rwlock_init" && Call.arg_size() == 2 && isa<ConstantPointerNull>(Call.getArgOperand(1));
  return IsInit || Name == "pthread_rwlock_destroy" ? LockCall::Neutral : LockCall::None;
}

// Classifies a call of a pthread function; Operand is the argument that names the mutex.
LockCall classify(const CallBase &Call, unsigned &Operand) {
  const Function *Callee = Call.getCalledFunction();
  if (!Callee || !Callee->isDeclaration())
    return LockCall::None;
  StringRef Name = Callee->getName();
  Operand = Name.starts_with("pthread_cond_") ? 1 : 0;
  if (Call.arg_size() <= Operand)
    return LockCall::None;
  if (Name == "pthread_mutex_lock")
    return LockCall::Lock;
  if (Name == "pthread_mutex_unlock")
    return LockCall::Unlock;
  if (Name == "pthread_mutex_trylock" || Name == "pthread_mutex_timedlock" || Name == "pthread_mutex_clocklock")
    return LockCall::TryLock;
  if (Name == "pthread_mutex_destroy" || Name == "pthread_cond_wait" || Name == "pthread_cond_timedwait" ||
      Name == "pthread_cond_clockwait")
    return LockCall::Neutral;
  // Initialising with attributes could make the mutex recursive or robust.
  if (Name == "pthread_mutex_init" && Call.arg_size() == 2 && isa<ConstantPointerNull>(Call.getArgOperand(1)))
    return LockCall::Neutral;
  return classifyReadWrite(Call, Name);
}

class Analysis {
public:
  explicit Analysis(Module &M) : M(M), DL(M.getDataLayout()) {}

  DenseMap<const GlobalVariable *, const CallBase *> run() {
    for (GlobalVariable &G : M.globals())
      if (G.hasLocalLinkage() && !G.isThreadLocal() && !G.isConstant())
        findMutexes(G);
    if (Mutexes.empty())
      return DenseMap<const GlobalVariable *, const CallBase *>();
    for (Function &F : M)
      if (!F.isDeclaration())
        Functions.push_back(&F);
    // What functions acquire is under-approximated round by round, which is sound at every stop; what they may release
    // is found anew in each round.
    for (unsigned Round = 0; Round < 3; Round++) {
      findReleases();
      findAcquisitions();
    }
    findReleases();
    findEntries();
    return findConsistent();
  }

private:
  using Key = std::pair<const GlobalVariable *, int64_t>;

  Key place(const Value *P) const {
    APInt Offset(DL.getIndexTypeSizeInBits(P->getType()), 0);
    auto *G = dyn_cast<GlobalVariable>(P->stripAndAccumulateConstantOffsets(DL, Offset, true));
    return {G, Offset.getSExtValue()};
  }

  void findMutexes(const GlobalVariable &G) {
    SmallVector<const Value *, 8> Work = {&G};
    SmallVector<std::pair<Key, const CallBase *>, 4> Found;
    while (!Work.empty()) {
      const Value *V = Work.pop_back_val();
      for (const Use &U : V->uses()) {
        const User *W = U.getUser();
        auto *Address = dyn_cast<GEPOperator>(W);
        auto *Call = dyn_cast<CallBase>(W);
        unsigned Operand = 0;
        if (Address && Address->hasAllConstantIndices())
          Work.push_back(W);
        else if (Call && classify(*Call, Operand) != LockCall::None && &U == &Call->getArgOperandUse(Operand))
          Found.push_back({place(U.get()), Call});
        else if (!isa<LoadInst>(W) && !(isa<StoreInst>(W) && U.getOperandNo() == StoreInst::getPointerOperandIndex()))
          return;
      }
    }
    for (auto [K, Call] : Found)
      if (Mutexes.size() < MutexesMax && Mutexes.try_emplace(K, Mutexes.size()).second)
        Uses.push_back(Call);
  }

  Held bits(const Value *P) const {
    auto Known = Mutexes.find(place(P));
    return Known == Mutexes.end() ? 0 : (Held(1) << MutexesMax | 1) << Known->second;
  }

  // What a call gives its thread, if it is one of these and succeeds.
  Held taken(const CallBase &Call, LockCall Alone, LockCall Shared) const {
    unsigned Operand = 0;
    LockCall Kind = classify(Call, Operand);
    if (Kind != Alone && Kind != Shared)
      return 0;
    Held Both = bits(Call.getArgOperand(Operand));
    return Kind == Alone ? Both : inAnyWay(Both);
  }

  // What a call may take away from whoever holds it at the call.
  Held released(const CallBase &Call) const {
    unsigned Operand = 0;
    LockCall Kind = classify(Call, Operand);
    if (Kind == LockCall::Unlock)
      return bits(Call.getArgOperand(Operand));
    if (Kind != LockCall::None || isa<IntrinsicInst>(Call))
      return 0;
    if (Call.hasFnAttr(Attribute::ReturnsTwice))
      return Everything;
    const Function *Callee = Call.getCalledFunction();
    if (Callee && !Callee->isDeclaration() && !Callee->isInterposable())
      return MayRelease.lookup(Callee);
    // Unknown code can come back through every door of this module. Threads do not: they have locks of their own.
    return ReleasedFromOutside;
  }

  Held acquired(const CallBase &Call) const {
    if (Held Now = taken(Call, LockCall::Lock, LockCall::ReadLock))
      return Now;
    const Function *Callee = Call.getCalledFunction();
    return Callee && !Callee->isDeclaration() && !Callee->isInterposable() ? Acquires.lookup(Callee) : 0;
  }

  // If BB ends by comparing the result of a trylock with 0, the successor on which the lock was taken, and the lock.
  std::pair<const BasicBlock *, Held> taken(const BasicBlock &BB) const {
    auto *Branch = dyn_cast<BranchInst>(BB.getTerminator());
    auto *Compare = Branch && Branch->isConditional() ? dyn_cast<ICmpInst>(Branch->getCondition()) : nullptr;
    auto *Call = Compare ? dyn_cast<CallInst>(Compare->getOperand(0)) : nullptr;
    auto *Zero = Compare ? dyn_cast<ConstantInt>(Compare->getOperand(1)) : nullptr;
    if (!Call || !Zero || !Zero->isZero() || !Compare->isEquality() || Branch->getSuccessor(0) == Branch->getSuccessor(1))
      return {nullptr, 0};
    Held Now = taken(*Call, LockCall::TryLock, LockCall::TryReadLock);
    // Nothing may happen between the call and the branch: it could be undone there.
    for (const Instruction *I = Call->getNextNode(); I; I = I->getNextNode())
      if (isa<CallBase>(I) && !isa<IntrinsicInst>(I))
        return {nullptr, 0};
    const BasicBlock *Success = Branch->getSuccessor(Compare->getPredicate() == ICmpInst::ICMP_EQ ? 0 : 1);
    if (Call->getParent() != &BB)
      return {nullptr, 0};
    return {Success, Now};
  }

  // Runs the analysis over F and calls Visit with what is held before each instruction.
  Held flow(const Function &F, Held Entry, function_ref<void(const Instruction &, Held)> Visit) const {
    std::map<const BasicBlock *, Held> In;
    for (const BasicBlock &BB : F)
      In[&BB] = Everything;
    In[&F.getEntryBlock()] = Entry;
    SmallVector<const BasicBlock *, 32> Work;
    for (const BasicBlock &BB : F)
      Work.push_back(&BB);
    Held AtReturn = Everything;
    auto Transfer = [&](const BasicBlock &BB, bool Last) {
      Held Now = In[&BB], Unwound = Everything;
      for (const Instruction &I : BB) {
        if (Last)
          Visit(I, Now);
        auto *Call = dyn_cast<CallBase>(&I);
        if (!Call)
          continue;
        Now &= ~released(*Call);
        Unwound = Now; // a call that unwinds has not acquired anything for us
        Now |= acquired(*Call);
      }
      if (Last && isa<ReturnInst>(BB.getTerminator()))
        AtReturn &= Now;
      auto *Invoke = dyn_cast<InvokeInst>(BB.getTerminator());
      auto [Success, Extra] = taken(BB);
      for (const BasicBlock *Next : successors(&BB)) {
        Held Edge = Invoke && Next == Invoke->getUnwindDest() ? Unwound : Next == Success ? Now | Extra : Now;
        Held Out = In[Next] & Edge;
        if (Out != In[Next]) {
          In[Next] = Out;
          Work.push_back(Next);
        }
      }
    };
    while (!Work.empty())
      Transfer(*Work.pop_back_val(), false);
    for (const BasicBlock &BB : F)
      Transfer(BB, true);
    return AtReturn;
  }

  static bool hasUnknownCallers(const Function &F) { return !F.hasLocalLinkage() || F.hasAddressTaken(); }

  void findReleases() {
    MayRelease.clear();
    ReleasedFromOutside = 0;
    for (bool Changed = true; Changed;) {
      Changed = false;
      for (const Function *F : Functions) {
        Held Releases = 0;
        flow(*F, 0, [&](const Instruction &I, Held Own) {
          if (auto *Call = dyn_cast<CallBase>(&I); Call && !Call->hasFnAttr(Attribute::ReturnsTwice))
            Releases |= released(*Call) & ~Own;
        });
        if (Releases & ~MayRelease.lookup(F)) {
          MayRelease[F] |= Releases;
          Changed = true;
        }
        if (hasUnknownCallers(*F) && (Releases & ~ReleasedFromOutside)) {
          ReleasedFromOutside |= Releases;
          Changed = true;
        }
      }
    }
  }

  void findAcquisitions() {
    DenseMap<const Function *, Held> New;
    for (const Function *F : Functions) {
      Held AtReturn = flow(*F, 0, [](const Instruction &, Held) {});
      New[F] = AtReturn == Everything ? 0 : AtReturn; // never returns
    }
    Acquires = New;
  }

  void findEntries() {
    for (const Function *F : Functions)
      Entries[F] = hasUnknownCallers(*F) || F->use_empty() ? 0 : Everything;
    for (bool Changed = true; Changed;) {
      Changed = false;
      for (const Function *F : Functions)
        flow(*F, Entries[F], [&](const Instruction &I, Held Now) {
          auto *Call = dyn_cast<CallBase>(&I);
          const Function *Callee = Call ? Call->getCalledFunction() : nullptr;
          if (!Callee || Callee->isDeclaration())
            return;
          Held Meet = Entries[Callee] & Now;
          Changed |= Meet != Entries[Callee];
          Entries[Callee] = Meet;
        });
    }
  }

  DenseMap<const GlobalVariable *, const CallBase *> findConsistent() {
    DenseMap<const Instruction *, Held> AtAccess;
    for (const Function *F : Functions)
      flow(*F, Entries[F], [&](const Instruction &I, Held Now) {
        if (I.mayReadOrWriteMemory())
          AtAccess[&I] = Now;
      });
    DenseMap<const GlobalVariable *, const CallBase *> Out;
    for (const GlobalVariable &G : M.globals()) {
      if (!G.hasLocalLinkage() || G.isThreadLocal() || G.isConstant() || G.use_empty())
        continue;
      uint64_t Common = inAnyWay(Everything);
      auto Use = [&](const Instruction &I, bool Writes) {
        Held Now = I.isAtomic() ? 0 : AtAccess.lookup(&I);
        Common &= Writes ? forWriting(Now) : inAnyWay(Now);
      };
      if (forEachUse(G, Use) && Common && Common != inAnyWay(Everything))
        Out[&G] = Uses[countr_zero(Common)];
    }
    return Out;
  }

  // Like forEachDirectAccess, but with variable indices (an index that leaves the object is undefined), ranges, and the
  // mutexes that are fields of the object.
  bool forEachUse(const GlobalVariable &G, function_ref<void(const Instruction &, bool Writes)> Visit) const {
    SmallVector<const Value *, 8> Work = {&G};
    while (!Work.empty()) {
      const Value *V = Work.pop_back_val();
      for (const Use &U : V->uses()) {
        const User *W = U.getUser();
        if (isa<GEPOperator>(W) && U.getOperandNo() == 0)
          Work.push_back(W);
        else if (isa<LoadInst>(W) || (isa<StoreInst>(W) && U.getOperandNo() == StoreInst::getPointerOperandIndex()) ||
                 (isa<MemIntrinsic>(W) && U.getOperandNo() < 2))
          Visit(*cast<Instruction>(W), !isa<LoadInst>(W) && (isa<StoreInst>(W) || U.getOperandNo() == 0));
        else if (!isa<CallBase>(W) || !bits(U.get()))
          return false;
      }
    }
    return true;
  }

  Module &M;
  const DataLayout &DL;
  std::map<Key, unsigned> Mutexes;
  // By a mutex's bit, a call that is given it.
  std::vector<const CallBase *> Uses;
  std::vector<const Function *> Functions;
  DenseMap<const Function *, Held> MayRelease, Acquires, Entries;
  Held ReleasedFromOutside = 0;
};

} // namespace

DenseMap<const GlobalVariable *, const CallBase *> consistentlyLocked(Module &M) { return Analysis(M).run(); }

} // namespace refrain
