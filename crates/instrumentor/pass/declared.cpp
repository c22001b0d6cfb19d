#include "declared.h"
#include "names.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include <cstdlib>

using namespace llvm;

namespace refrain {

namespace {

// As `__refrain_lend` takes it.
constexpr unsigned Reads = 1, Writes = 2;

struct Range {
  unsigned How, Argument; // from 0
  bool IsConstant;
  uint64_t Length; // of bytes, or the argument that says it, from 0
};

struct Declared {
  SmallVector<Range, 2> Ranges;
  bool Allocates = false;
  std::optional<unsigned> Frees;
};

// Words "NAME WHAT ARGUMENT LENGTH": WHAT is one of r, w, u (both), a, f; LENGTH is an argument's number, or # and bytes.
StringMap<Declared> parse() {
  StringMap<Declared> All;
  const char *Text = std::getenv("REFRAIN_BUILD_FUNCTIONS");
  SmallVector<StringRef, 16> Lines;
  StringRef(Text ? Text : "").split(Lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef Line : Lines) {
    SmallVector<StringRef, 4> Words;
    Line.split(Words, ' ', -1, /*KeepEmpty=*/false);
    unsigned Argument = 0;
    uint64_t Length = 0;
    bool IsConstant = Words.size() == 4 && Words[3].consume_front("#");
    if (Words.size() != 4 || Words[2].getAsInteger(10, Argument) || Words[3].getAsInteger(10, Length))
      report_fatal_error("refrain: REFRAIN_BUILD_FUNCTIONS is set by something else than refrain cc; unset it");
    Declared &D = All[Words[0]];
    if (Words[1] == "a")
      D.Allocates = true;
    else if (Words[1] == "f")
      D.Frees = Argument - 1;
    else
      D.Ranges.push_back({Words[1] == "r" ? Reads : Words[1] == "w" ? Writes : Reads | Writes, Argument - 1, IsConstant,
                          IsConstant ? Length : Length - 1});
  }
  return All;
}

const Declared *declared(const CallBase &Call) {
  static const StringMap<Declared> All = parse();
  Function *Callee = All.empty() ? nullptr : libraryCallee(Call);
  auto It = Callee ? All.find(Callee->getName()) : All.end();
  return It == All.end() ? nullptr : &It->second;
}

// What was declared is not what is called: an error of the compilation, once for each function and reason.
bool refuse(const CallBase &Call, const Twine &Why) {
  static StringSet<> Said;
  StringRef Name = libraryCallee(Call)->getName();
  std::string Where;
  if (const DILocation *L = locationNear(Call))
    Where = (L->getFilename() + ":" + Twine(L->getLine()) + ": ").str();
  std::string Reason = (Name + " is not called as the file of --functions says: " + Why + "; correct its line there").str();
  if (Said.insert(Reason).second)
    Call.getContext().emitError("refrain: " + Twine(Where) + Reason);
  return false;
}

bool isCalledSo(const CallBase &Call, const Declared &D) {
  for (const Range &P : D.Ranges) {
    if (P.Argument >= Call.arg_size() || !Call.getArgOperand(P.Argument)->getType()->isPointerTy())
      return refuse(Call, "argument " + Twine(P.Argument + 1) + " is not an address");
    if (!P.IsConstant && (P.Length >= Call.arg_size() || !Call.getArgOperand(P.Length)->getType()->isIntegerTy()))
      return refuse(Call, "argument " + Twine(P.Length + 1) + " is not a number of bytes");
  }
  return true;
}

} // namespace

bool isDeclared(const CallBase &Call) {
  const Declared *D = declared(Call);
  return D && !D->Ranges.empty() && isCalledSo(Call, *D);
}

bool isDeclaredCall(const CallBase &Call, Filters &Keep) {
  if (!isDeclared(Call))
    return false;
  const Declared *D = declared(Call);
  return any_of(D->Ranges, [&](const Range &P) { return !Keep.isPrivate(Call.getArgOperand(P.Argument)); });
}

SmallVector<unsigned, 2> writtenArguments(const CallBase &Call) {
  SmallVector<unsigned, 2> All;
  if (const Declared *D = declared(Call))
    for (const Range &P : D->Ranges)
      if (P.How & Writes)
        All.push_back(P.Argument);
  return All;
}

void lowerDeclaredCall(CallBase *Call, Runtime &R, SiteTable &Sites, Value *InPlace) {
  const Declared &D = *declared(*Call);
  Constant *Site = Sites.site(*Call, abi::SiteKind::Range, 0);
  struct Lent {
    Value *Place, *Copy, *Bytes, *How;
  };
  SmallVector<Lent, 2> All;
  IRBuilder<> B(Call);
  for (const Range &P : D.Ranges) {
    Value *Place = Call->getArgOperand(P.Argument);
    Value *Bytes = P.IsConstant ? static_cast<Value *>(R.number(P.Length)) : B.CreateZExtOrTrunc(Call->getArgOperand(P.Length), R.I64);
    // Without an observer nothing is lent: no bytes are asked for.
    if (InPlace)
      Bytes = B.CreateSelect(InPlace, Bytes, R.number(0));
    Value *How = ConstantInt::get(R.I32, P.How);
    All.push_back({Place, R.call(B, "__refrain_lend", R.Ptr, {Place, Bytes, How, Site}), Bytes, How});
  }
  for (unsigned I = 0; I < All.size(); I++)
    Call->setArgOperand(D.Ranges[I].Argument, All[I].Copy);
  // What LLVM knows of the function it knows of the memory that is not given to it any more.
  Call->removeFnAttr(Attribute::Memory);
  Instruction *Behind = Call->getNextNode();
  if (auto *Invoke = dyn_cast<InvokeInst>(Call))
    Behind = &*SplitEdge(Invoke->getParent(), Invoke->getNormalDest())->getFirstInsertionPt();
  IRBuilder<> After(Behind);
  After.SetCurrentDebugLocation(Call->getDebugLoc());
  for (const Lent &L : All)
    R.call(After, "__refrain_take_back", R.Void, {L.Place, L.Copy, L.Bytes, L.How, Site});
  if (!Call->getType()->isPointerTy())
    return;
  SmallPtrSet<User *, 2> Own;
  Value *Result = Call;
  for (const Lent &L : All) {
    CallInst *Translated = R.call(After, "__refrain_lent_result", R.Ptr, {Result, L.Place, L.Copy, L.Bytes});
    Own.insert(Translated);
    Result = Translated;
  }
  Call->replaceUsesWithIf(Result, [&](Use &U) { return !Own.contains(U.getUser()); });
}

void declareAllocators(Module &M) {
  for (Function &F : M)
    for (Instruction &I : instructions(F)) {
      auto *Call = dyn_cast<CallBase>(&I);
      const Declared *D = Call ? declared(*Call) : nullptr;
      if (D && D->Allocates) {
        if (Call->getType()->isPointerTy())
          Call->addRetAttr(Attribute::NoAlias);
        else
          refuse(*Call, "it returns no address");
      }
      if (D && D->Frees) {
        if (*D->Frees >= Call->arg_size() || !Call->getArgOperand(*D->Frees)->getType()->isPointerTy())
          refuse(*Call, "argument " + Twine(*D->Frees + 1) + " is not an address");
        else
          Call->addParamAttr(*D->Frees, Attribute::getWithCaptureInfo(M.getContext(), CaptureInfo::none()));
      }
    }
}

} // namespace refrain
