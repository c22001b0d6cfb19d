#include "calls.h"
#include "declared.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include <optional>

using namespace llvm;

namespace refrain {

namespace {

// Functions the runtime offers under __refrain_ and the same signature.
const StringSet<> &stringFunctions() {
  static const StringSet<> Names = {
#define OBSERVED(Name) #Name,
#define OBSERVED_LIST(Name)
#define OBSERVED_RANGE(Name)
#define KERNEL(Name)
#define NONE(Name)
#include "library.def"
  };
  return Names;
}
#undef OBSERVED
#undef OBSERVED_LIST

// The same; what they are given lies behind a list of arguments, where nobody sees it.
const StringSet<> &listFunctions() {
  static const StringSet<> Names = {
#define OBSERVED(Name)
#define OBSERVED_LIST(Name) #Name,
#include "library.def"
  };
  return Names;
}
#undef OBSERVED_LIST
#undef KERNEL

// Functions that give memory to the kernel.
const StringSet<> &kernelFunctions() {
  static const StringSet<> Names = {
#define OBSERVED_LIST(Name)
#define KERNEL(Name) #Name,
#include "library.def"
      "syscall",
  };
  return Names;
}
#undef OBSERVED
#undef OBSERVED_LIST
#undef OBSERVED_RANGE
#undef KERNEL
#undef NONE

// An argument that is not memory for the function to read or write: its stream, or what compares.
std::optional<unsigned> otherArgument(StringRef Name) {
  return StringSwitch<std::optional<unsigned>>(Name)
      .Cases("fprintf", "__fprintf_chk", 0u)
      .Case("fputs", 1u)
      .Case("fgets", 2u)
      .Cases("fwrite", "fread", "qsort", "qsort_r", 3u)
      .Default(std::nullopt);
}

// What the function writes, if it is one whose result is another one where that overlaps with what it reads.
std::optional<unsigned> writtenArgument(StringRef Name) {
  return StringSwitch<std::optional<unsigned>>(Name)
      .Cases("strcpy", "strncpy", "stpcpy", "strcat", "strncat", "strftime", 0u)
      .Cases("snprintf", "sprintf", "__snprintf_chk", "__sprintf_chk", 0u)
      .Default(std::nullopt);
}

bool mayOverlap(const Value *Written, const Value *Other) {
  const Value *One = getUnderlyingObject(Written), *Two = getUnderlyingObject(Other);
  auto *Global = dyn_cast<GlobalVariable>(Two);
  if (isa<ConstantPointerNull>(Two) || (Global && Global->isConstant()))
    return false;
  return One == Two || !isIdentifiedObject(One) || !isIdentifiedObject(Two);
}

// Does the argument share memory with another one of the call?
bool mayOverlapWithOthers(const CallBase &Call, unsigned Argument) {
  return any_of(Call.args(), [&](const Use &A) {
    return A.getOperandNo() != Argument && A->getType()->isPointerTy() && mayOverlap(Call.getArgOperand(Argument), A);
  });
}

// Functions the runtime offers with a site as an additional last argument.
bool isRangeFunction(StringRef Name) {
  return Name == "memcpy" || Name == "memmove" || Name == "memset" || Name == "mempcpy";
}

// The fortified variants: the length is the third argument, the size of the destination the fourth.
StringRef withoutCheck(StringRef Name) {
  return StringSwitch<StringRef>(Name)
      .Case("__memcpy_chk", "memcpy")
      .Case("__memmove_chk", "memmove")
      .Case("__memset_chk", "memset")
      .Case("__mempcpy_chk", "mempcpy")
      .Default("");
}

const char *SyncPrefixes[] = {
    "pthread_", "sem_", "thrd_", "mtx_", "cnd_", "tss_", "call_once", "__cxa_guard_", "__kmpc_", "omp_", "__gthread_",
    "_ZNSt6thread", "_ZNSt18condition_variable", "_ZNSt22condition_variable_any", "_ZNSt13__future_base", "_ZNSo",
    "_ZStlsI", "_ZSt16__ostream_insert", "_ZSt4endlI", "_ZSt5flushI",
};

const StringSet<> &syncFunctions() {
  static const StringSet<> Names = {
      "printf", "fprintf", "vprintf", "vfprintf", "dprintf", "vdprintf", "__printf_chk", "__fprintf_chk", "puts",
      "fputs", "putchar", "putc", "fputc", "_IO_putc", "fwrite", "fflush", "perror", "write", "writev", "pwrite",
      "pwritev", "send", "sendto", "sendmsg", "read", "readv", "pread", "recv", "recvfrom", "recvmsg", "fread",
      "fgets", "fgetc", "getc", "getchar", "getline", "scanf", "fscanf", "fclose", "fopen", "close", "flockfile",
      "funlockfile", "ftrylockfile", "exit", "_exit", "quick_exit", "abort", "fork", "syscall", "poll", "select",
      "epoll_wait", "usleep", "nanosleep", "sleep", "sched_yield", "clock_nanosleep", "rand", "random", "time",
      "gettimeofday", "clock_gettime", "sigwait", "sigwaitinfo", "eventfd", "eventfd_read", "eventfd_write", "raise",
      "kill", "__assert_fail", "puts_unlocked", "fputs_unlocked", "fwrite_unlocked", "putchar_unlocked", "vsyslog",
      "syslog",
  };
  return Names;
}

bool isSync(StringRef Name) {
  return syncFunctions().contains(Name) || any_of(SyncPrefixes, [&](const char *P) { return Name.starts_with(P); });
}

bool passesShared(const CallBase &Call, Filters &Keep) {
  return any_of(memoryArguments(Call), [&](const Value *P) { return !Keep.isPrivate(P); });
}

bool isRangeCall(const CallBase &Call, StringRef Name) {
  return (isRangeFunction(Name) || !withoutCheck(Name).empty()) && Call.arg_size() >= 3;
}

// Calls To with one more argument; the rest of the call (normal and unwind edges, attributes) stays as it is.
void callWithSite(CallBase *Call, Value *To, FunctionType *T, ArrayRef<Value *> Arguments, bool ResultIsEnd) {
  IRBuilder<> B(Call);
  CallInst *New = B.CreateCall(T, To, Arguments);
  New->setDoesNotThrow();
  Value *Result = New;
  if (ResultIsEnd)
    Result = B.CreateGEP(B.getInt8Ty(), New, Arguments[2]);
  Call->replaceAllUsesWith(Result);
  if (auto *Invoke = dyn_cast<InvokeInst>(Call)) {
    BranchInst::Create(Invoke->getNormalDest(), Invoke->getIterator());
    Invoke->getUnwindDest()->removePredecessor(Invoke->getParent());
  }
  Call->eraseFromParent();
}

void lowerRangeCall(CallBase *Call, StringRef Name, Runtime &R, SiteTable &Sites, Value *InPlace) {
  bool ResultIsEnd = Name == "mempcpy";
  StringRef Base = ResultIsEnd ? "memcpy" : Name;
  SmallVector<Value *, 4> Arguments = {Call->getArgOperand(0), Call->getArgOperand(1), Call->getArgOperand(2)};
  SmallVector<Type *, 4> Types;
  for (Value *A : Arguments)
    Types.push_back(A->getType());
  Value *Plain = R.M.getOrInsertFunction(Base, FunctionType::get(R.Ptr, Types, false)).getCallee();
  Arguments.push_back(Sites.site(*Call, abi::SiteKind::Range, 0));
  Types.push_back(R.Ptr);
  FunctionType *T = FunctionType::get(R.Ptr, Types, false);
  Value *To = R.function("__refrain_" + Base, R.Ptr, Types).getCallee();
  if (InPlace)
    To = IRBuilder<>(Call).CreateSelect(InPlace, To, Plain);
  callWithSite(Call, To, T, Arguments, ResultIsEnd);
}

void lowerStringCall(CallBase *Call, Function *Callee, Runtime &R, SiteTable &Sites, Value *InPlace) {
  IRBuilder<> B(Call);
  abi::SiteKind Kind = allocates(*Call) ? abi::SiteKind::Allocation : abi::SiteKind::Range;
  R.storeSite(B, R.self(B), Sites.site(*Call, Kind, 0));
  FunctionType *T = Call->getFunctionType();
  Value *To = R.M.getOrInsertFunction(("__refrain_" + Callee->getName()).str(), T).getCallee();
  if (InPlace)
    To = B.CreateSelect(InPlace, To, Callee);
  Call->setCalledFunction(T, To);
  // What LLVM inferred for strlen (reads its argument, nothing else) does not hold for the observed one.
  Call->removeFnAttr(Attribute::Memory);
  Call->removeFnAttr(Attribute::NoSync);
}

} // namespace

bool worksOnMemory(const CallBase &Call) {
  Function *Callee = libraryCallee(Call);
  if (!Callee)
    return false;
  StringRef Name = Callee->getName();
  return isDeclared(Call) || listFunctions().contains(Name) || isRangeCall(Call, Name) || stringFunctions().contains(Name);
}

SmallVector<const Value *, 4> memoryArguments(const CallBase &Call) {
  Function *Callee = libraryCallee(Call);
  std::optional<unsigned> Other = Callee ? otherArgument(Callee->getName()) : std::nullopt;
  SmallVector<const Value *, 4> Pointers;
  for (const Use &A : Call.args())
    if (A->getType()->isPointerTy() && Other != A.getOperandNo())
      Pointers.push_back(A);
  return Pointers;
}

bool isMemoryCall(const Instruction &I, Filters &Keep) {
  auto *Call = dyn_cast<CallBase>(&I);
  Function *Callee = Call ? libraryCallee(*Call) : nullptr;
  if (!Callee)
    return false;
  if (Keep.IsMarked)
    return I.hasMetadata(Filters::Mark);
  if (isDeclaredCall(*Call, Keep))
    return true;
  StringRef Name = Callee->getName();
  return listFunctions().contains(Name) ||
         ((isRangeCall(*Call, Name) || stringFunctions().contains(Name)) && passesShared(*Call, Keep));
}

bool needsCopies(const CallBase &Call) {
  if (auto *Copy = dyn_cast<MemCpyInst>(&Call))
    return mayOverlap(Copy->getRawDest(), Copy->getRawSource());
  Function *Callee = libraryCallee(Call);
  if (!Callee)
    return false;
  if (isDeclared(Call))
    return any_of(writtenArguments(Call), [&](unsigned Argument) { return mayOverlapWithOthers(Call, Argument); });
  StringRef Name = Callee->getName();
  if (std::optional<unsigned> Written = writtenArgument(Name))
    return mayOverlapWithOthers(Call, *Written);
  return StringSwitch<bool>(Name)
      // What they read is their first argument, and what they write are others.
      .Cases("sscanf", "__isoc99_sscanf", mayOverlapWithOthers(Call, 0))
      // Nobody sees what is in a list.
      .Cases("vsnprintf", "vsprintf", "__vsnprintf_chk", "__vsprintf_chk", "vsscanf", "__isoc99_vsscanf", true)
      // Their events come before the last of their accesses.
      .Cases("fread", "fgets", "qsort", "qsort_r", true)
      .Default(false);
}

bool isKernelCall(const CallBase &Call) {
  Function *Callee = libraryCallee(Call);
  return Callee && kernelFunctions().contains(Callee->getName());
}

bool hasMemoryCalls(Function &F, Filters &Keep) {
  return any_of(instructions(F), [&](Instruction &I) { return isMemoryCall(I, Keep); });
}

SmallVector<CallBase *, 16> memoryCalls(Function &F, Filters &Keep) {
  SmallVector<CallBase *, 16> Work;
  for (Instruction &I : instructions(F))
    if (isMemoryCall(I, Keep) && !cast<CallBase>(I).isMustTailCall())
      Work.push_back(cast<CallBase>(&I));
  return Work;
}

void lowerMemoryCalls(ArrayRef<CallBase *> Calls, Runtime &R, SiteTable &Sites, Value *InPlace) {
  for (CallBase *Call : Calls) {
    Function *Callee = libraryCallee(*Call);
    StringRef Name = Callee->getName(), Unchecked = withoutCheck(Name);
    if (isDeclared(*Call)) {
      lowerDeclaredCall(Call, R, Sites, InPlace);
    } else if (!Unchecked.empty()) {
      // The check stays what it is: a length beyond the destination's size ends the program in libc.
      IRBuilder<> B(Call);
      Value *TooLong = B.CreateICmpUGT(Call->getArgOperand(2), Call->getArgOperand(3));
      Instruction *Fail = SplitBlockAndInsertIfThen(TooLong, Call, /*Unreachable=*/true);
      IRBuilder<> FB(Fail);
      FB.CreateCall(R.M.getOrInsertFunction("__chk_fail", R.Void));
      lowerRangeCall(Call, Unchecked, R, Sites, InPlace);
    } else if (isRangeFunction(Name)) {
      lowerRangeCall(Call, Name, R, Sites, InPlace);
    } else {
      lowerStringCall(Call, Callee, R, Sites, InPlace);
    }
  }
}

void markCalls(Function &F, Runtime &R, SiteTable &Sites) {
  SmallVector<CallBase *, 16> Work;
  for (Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallBase>(&I))
      if (Function *Callee = libraryCallee(*Call); Callee && (isSync(Callee->getName()) || allocates(*Call)))
        Work.push_back(Call);
  for (CallBase *Call : Work) {
    IRBuilder<> B(Call);
    abi::SiteKind Kind = allocates(*Call) ? abi::SiteKind::Allocation : abi::SiteKind::SyncCall;
    R.storeSite(B, R.self(B), Sites.site(*Call, Kind, 0));
  }
}

void dropMemoryPromises(Module &M) {
  TargetLibraryInfoImpl Impl(M.getTargetTriple());
  TargetLibraryInfo Library(Impl);
  auto Keeps = [&](const Function *F) {
    LibFunc Known;
    return F && F->isDeclaration() && (F->isIntrinsic() || Library.getLibFunc(*F, Known));
  };
  for (Function &F : M) {
    if (!Keeps(&F)) {
      F.removeFnAttr(Attribute::Memory);
      F.removeFnAttr(Attribute::NoSync);
      F.removeFnAttr(Attribute::Speculatable);
    }
    for (Instruction &I : instructions(F)) {
      auto *Call = dyn_cast<CallBase>(&I);
      if (!Call || Call->isInlineAsm() || Keeps(Call->getCalledFunction()))
        continue;
      Call->removeFnAttr(Attribute::Memory);
      Call->removeFnAttr(Attribute::NoSync);
    }
  }
}

} // namespace refrain
