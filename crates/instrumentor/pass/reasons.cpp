#include "reasons.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/CaptureTracking.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"

using namespace llvm;

namespace refrain {

namespace {

std::string quoted(const Twine &Name) { return ("`" + Name + "`").str(); }

std::string demangled(StringRef Name) {
  Name.consume_back(abi::CloneSuffix);
  std::string Whole = demangle(Name.str());
  return Whole;
}

// The first use that gives an object's address away, as `escapes` of filters.cpp has it.
struct FirstCapture : CaptureTracker {
  const Use *Found = nullptr;

  void tooManyUses() override {}
  Action captured(const Use *U, UseCaptureInfo Info) override {
    if (!capturesAnything(Info.UseCC & CaptureComponents::Provenance))
      return Continue;
    Found = U;
    return Stop;
  }
};

} // namespace

void Reasons::takeLocks(const Filters &Keep, Names &Elements) {
  for (auto [G, Call] : Keep.ConsistentlyLocked) {
    std::optional<Spe> Lock = Elements.ofLock(*Call);
    Locks[G] = Lock ? quoted(Lock->Name) : "a mutex";
    if (Call->getCalledFunction()->getName().starts_with("pthread_rwlock_"))
      ReadWriteLocked.insert(G);
  }
}

std::string Reasons::ofObject(const Filters::Found &Object, const Function &F) const {
  const Value &V = *Object.Object;
  auto *G = dyn_cast<GlobalVariable>(&V);
  auto *A = dyn_cast<AllocaInst>(&V);
  auto *Call = dyn_cast<CallBase>(&V);
  switch (Object.Why) {
  case Rule::Shared:
    return shared(V, F);
  case Rule::Segment:
    return "it is relative to a segment register, and so of this thread's own block";
  case Rule::Constant:
    return "constant memory: " + (G ? nameOf(*G) : quoted("?")) + " is never written";
  case Rule::Profile:
    return "a counter of coverage or profiling, which the program never reads";
  case Rule::ThreadLocal:
    if (auto *Address = dyn_cast<IntrinsicInst>(&V))
      G = dyn_cast<GlobalVariable>(Address->getArgOperand(0));
    return "each thread has its own " + (G ? nameOf(*G) : std::string("variable")) + ", and its address does not leave the thread";
  case Rule::NeverWritten:
    return "nothing writes " + nameOf(*G) + ", which is not visible outside this module and keeps its first value";
  case Rule::Settled:
    return nameOf(*G) + " is written only before there is another thread, and no other object can name it";
  case Rule::Locked:
    return "lock " + Locks.lookup(G) + " is held at every access of " + nameOf(*G) +
           (ReadWriteLocked.contains(G) ? ", and for writing at every write" : "");
  case Rule::ByValue:
    return "does not escape: the argument " + nameOf(cast<Argument>(V)) + " of " + quoted(nameOf(F)) + " is passed by value, its own copy";
  case Rule::Stack:
    return "does not escape: stack object " + nameOf(*A) + " of " + quoted(nameOf(F));
  case Rule::FreshHeap:
    return "does not escape: " + memoryOf(*Call) + " is never given to anyone but functions that do not keep it";
  case Rule::Scratch:
    return "memory of the recorder's own";
  default:
    return "";
  }
}

std::string Reasons::shared(const Value &Object, const Function &F) const {
  if (auto *G = dyn_cast<GlobalVariable>(&Object))
    return sharedGlobal(*G);
  if (auto *A = dyn_cast<Argument>(&Object)) {
    if (A->hasByValAttr())
      return "may be shared: the copy in argument " + nameOf(*A) + " escapes: " + escapeOf(*A);
    return "may be shared: points to memory from argument " + nameOf(*A) + " of " + quoted(nameOf(F)) +
           (F.hasLocalLinkage() ? ", whose callers are not looked at" : ", which is visible outside this module");
  }
  if (auto *A = dyn_cast<AllocaInst>(&Object))
    return "may be shared: stack object " + nameOf(*A) + " escapes: " + escapeOf(*A);
  if (auto *L = dyn_cast<LoadInst>(&Object))
    return "may be shared: the pointer was loaded from memory at " + place(*L);
  if (auto *Call = dyn_cast<CallBase>(&Object)) {
    auto *II = dyn_cast<IntrinsicInst>(Call);
    if (II && II->getIntrinsicID() == Intrinsic::threadlocal_address) {
      auto *G = dyn_cast<GlobalVariable>(II->getArgOperand(0));
      return G ? sharedGlobal(*G) : "may be shared: a thread's own variable, whose address others may have";
    }
    if (isNoAliasCall(Call))
      return "may be shared: " + memoryOf(*Call) + " escapes: " + escapeOf(*Call);
    return "may be shared: the pointer was returned by " + calleeOf(*Call) + " at " + place(*Call);
  }
  if (isa<IntToPtrInst>(Object) || isa<ConstantExpr>(Object))
    return "may be shared: its address was computed from a number";
  if (isa<Constant>(Object))
    return "may be shared: its address is a constant that is no variable's";
  if (auto *I = dyn_cast<Instruction>(&Object))
    return "may be shared: it is not known what the pointer computed at " + place(*I) + " points to";
  return "may be shared: it is not known what the pointer points to";
}

std::string Reasons::sharedGlobal(const GlobalVariable &G) const {
  std::string Name = nameOf(G);
  if (!G.hasLocalLinkage())
    return "may be shared: " + Name + " is visible outside this module" +
           (G.isThreadLocal() ? ", where its address may be taken for other threads" : "");
  if (G.isThreadLocal()) {
    for (const User *U : G.users())
      if (auto *Address = dyn_cast<IntrinsicInst>(U); Address && Address->getIntrinsicID() == Intrinsic::threadlocal_address)
        if (std::string Where = escapeOf(*Address); !Where.empty())
          return "may be shared: the address of the thread's own " + Name + " is given away: " + Where;
    return "may be shared: the address of the thread's own " + Name + " is used otherwise than to access it";
  }
  const Instruction *Writes = nullptr;
  bool OnlyDirect = forEachDirectAccess(G, [&](const Instruction &I) {
    if (!isa<LoadInst>(I) && !Writes)
      Writes = &I;
    return true;
  });
  std::string Unlocked = ", and no mutex of this module is held at all its accesses";
  if (OnlyDirect && Writes)
    return "may be shared: " + Name + " is written at " + place(*Writes) + Unlocked;
  return "may be shared: the address of " + Name + " is computed or passed on" + Unlocked;
}

std::string Reasons::place(const Instruction &I) const {
  const DILocation *L = locationNear(I);
  if (L)
    return place(*L);
  // As in the site table: what has no place of its own is at the beginning of its function.
  const DISubprogram *S = I.getFunction()->getSubprogram();
  return S ? Types.shortPath(S) + ":" + std::to_string(S->getLine()) : "an unknown place";
}

std::string Reasons::place(const DILocation &L) const {
  std::string Text = Types.shortPath(L.getScope()) + ":" + std::to_string(L.getLine());
  return L.getColumn() ? Text + ":" + std::to_string(L.getColumn()) : Text;
}

std::string Reasons::nameOf(const Function &F) const {
  if (const DISubprogram *S = F.getSubprogram())
    return nameOf(*S);
  return demangled(F.getName());
}

std::string Reasons::nameOf(const GlobalVariable &G) const {
  const DIGlobalVariable *V = Types.variable(G);
  if (V && !V->getName().empty())
    return quoted(V->getName());
  // clang's name of a text is .str.N; it has no other.
  return G.getName().starts_with(".str") || G.getName().empty() ? "a literal" : quoted(demangled(G.getName()));
}

std::string Reasons::nameOf(const AllocaInst &A) const {
  const DILocalVariable *V = Types.variable(A);
  return V && !V->getName().empty() ? quoted(V->getName()) : "without a name";
}

std::string Reasons::nameOf(const Argument &A) const {
  SmallVector<DbgVariableRecord *, 4> Described;
  findDbgUsers(const_cast<Argument *>(&A), Described);
  for (const DbgVariableRecord *D : Described)
    if (const DILocalVariable *V = D->getVariable(); V && V->isParameter() && !D->getDebugLoc()->getInlinedAt() && !V->getName().empty())
      return quoted(V->getName());
  // Without optimisation it lives in memory of its own, which has the name.
  for (const User *U : A.users())
    if (auto *S = dyn_cast<StoreInst>(U); S && S->getValueOperand() == &A)
      if (auto *Home = dyn_cast<AllocaInst>(S->getPointerOperand()))
        if (const DILocalVariable *V = Types.variable(*Home); V && !V->getName().empty())
          return quoted(V->getName());
  return std::to_string(A.getArgNo() + 1);
}

std::string Reasons::calleeOf(const CallBase &Call) const {
  if (Call.isInlineAsm())
    return "inline assembly";
  auto *Callee = dyn_cast<Function>(Call.getCalledOperand()->stripPointerCasts());
  return Callee ? quoted(nameOf(*Callee)) : "a function that a pointer names";
}

std::string Reasons::memoryOf(const CallBase &Call) const { return "the memory from " + calleeOf(Call) + " at " + place(Call); }

std::string Reasons::escapeOf(const Value &Object) const {
  FirstCapture First;
  PointerMayBeCaptured(&Object, &First);
  if (First.Found)
    return capture(*First.Found);
  return capturesAnything(PointerMayBeCaptured(&Object, /*ReturnCaptures=*/true, CaptureComponents::Provenance))
             ? "its address has more uses than are looked at"
             : "";
}

std::string Reasons::capture(const Use &U) const {
  auto *I = cast<Instruction>(U.getUser());
  std::string At = " at " + place(*I);
  if (isa<ReturnInst>(I))
    return "its address is returned" + At;
  if (auto *Call = dyn_cast<CallBase>(I))
    return "its address is given to " + calleeOf(*Call) + At;
  if (getLoadStorePointerOperand(I) == U.get())
    return "it is accessed as volatile" + At;
  if (isa<StoreInst>(I))
    return "its address is stored" + At;
  return "its address is used" + At;
}

} // namespace refrain
