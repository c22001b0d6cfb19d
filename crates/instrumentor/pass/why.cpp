#include "why.h"
#include "calls.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace llvm;

namespace refrain {

namespace {

constexpr const char *AskedVariable = "REFRAIN_BUILD_WHY";
constexpr const char *AnswerVariable = "REFRAIN_BUILD_WHY_TO";

std::string bytes(uint64_t N) { return std::to_string(N) + "-byte "; }

// Fields are separated by tabs, records by lines.
std::string field(StringRef Text) {
  std::string Out;
  for (char C : Text)
    Out += C == '\t' || C == '\n' ? ' ' : C;
  return Out;
}

// Other intrinsics that access memory they are given.
bool isUnknownIntrinsic(const Instruction &I) {
  auto *II = dyn_cast<IntrinsicInst>(&I);
  if (!II || isa<MemIntrinsic>(II) || isMasked(I) || II->isAssumeLikeIntrinsic() || II->isLifetimeStartOrEnd() ||
      !II->mayReadOrWriteMemory())
    return false;
  switch (II->getIntrinsicID()) {
  // What they are given is on the stack, or is not accessed by them.
  case Intrinsic::vastart:
  case Intrinsic::vaend:
  case Intrinsic::vacopy:
  case Intrinsic::stacksave:
  case Intrinsic::stackrestore:
  case Intrinsic::prefetch:
  case Intrinsic::eh_typeid_for:
  case Intrinsic::trap:
    return false;
  default:
    return any_of(II->args(), [](const Use &U) { return U->getType()->isPtrOrPtrVectorTy(); });
  }
}

} // namespace

std::unique_ptr<Why> Why::asked(Module &M, const struct Options &Options, Filters &Keep, SiteTable &Sites, Names &Elements) {
  const char *Text = std::getenv(AskedVariable);
  if (!Text || !*Text)
    return nullptr;
  std::unique_ptr<Why> Asked(new Why(M, Options, Keep, Sites, Elements));
  SmallVector<StringRef, 8> Lines;
  StringRef(Text).split(Lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef Line : Lines) {
    SmallVector<StringRef, 3> Words;
    Line.split(Words, '\t');
    uint32_t Number = 0;
    if (Words.size() != 3 || Words[0].getAsInteger(10, Number))
      report_fatal_error("refrain: REFRAIN_BUILD_WHY is set by something else than refrain cc; unset it");
    Asked->Places.push_back({Words[1].str(), Words[2].str(), Number});
  }
  Asked->Told.takeLocks(Keep, Elements);
  Asked->seeFiles();
  return Asked;
}

bool Why::isOf(const Place &P, StringRef Path) const {
  if (Path == P.Absolute || Path == P.Typed)
    return true;
  return Path.consume_back(P.Typed) && Path.ends_with("/");
}

// Does the module have anything of the file?
void Why::seeFiles() {
  DebugInfoFinder All;
  All.processModule(M);
  auto See = [&](const DIScope *Scope) {
    std::string Path = Sites.path(Scope);
    for (Place &P : Places)
      P.HasFile |= isOf(P, Path);
  };
  for (const DICompileUnit *Unit : All.compile_units())
    See(Unit);
  for (const DISubprogram *S : All.subprograms())
    See(S);
  for (const DIScope *S : All.scopes())
    See(S);
}

// The place itself, and for code of libraries the reader's line that uses it; without any, the function's: as in the site table.
std::optional<Why::At> Why::askedAt(const Instruction &I) {
  const DILocation *Written = locationNear(I);
  const DISubprogram *Home = I.getFunction()->getSubprogram();
  if (!Written)
    return Home ? asked({0, Home, Home->getLine(), 0, nullptr}) : std::nullopt;
  const DILocation *Reader = Sites.readersLine(Written);
  for (const DILocation *L : {Written, Reader})
    if (std::optional<At> Found = asked({0, L->getScope(), L->getLine(), L->getColumn(), L == Written ? nullptr : Written}))
      return Found;
  return std::nullopt;
}

std::optional<Why::At> Why::asked(At Here) {
  std::string Path;
  for (Place &P : Places) {
    if (P.Line != Here.Line)
      continue;
    if (Path.empty())
      Path = Sites.path(Here.Scope);
    if (!isOf(P, Path))
      continue;
    P.HasFile = P.HasCode = true;
    Here.Place = &P - Places.data();
    return Here;
  }
  return std::nullopt;
}

void Why::look(Function &F) {
  for (Instruction &I : instructions(F))
    if (std::optional<At> Asked = askedAt(I))
      answer(I, *Asked);
}

void Why::leaveOut(Function &F, StringRef Reason) {
  size_t Before = Answers.size();
  look(F);
  for (size_t N = Before; N < Answers.size(); N++)
    notObserved(Answers[N], Rule::Untouched, Reason.str());
}

std::string Why::what(const Instruction &I, abi::SiteKind &Kind) const {
  Kind = abi::SiteKind::Atomic;
  const DataLayout &DL = M.getDataLayout();
  auto Size = [&](Type *T) {
    TypeSize Bytes = DL.getTypeStoreSize(T);
    return Bytes.isScalable() ? std::string("scalable ") : bytes(Bytes.getFixedValue());
  };
  std::string Kept = I.isVolatile() ? "volatile " : I.isAtomic() ? "atomic " : "";
  if (auto *L = dyn_cast<LoadInst>(&I)) {
    Kind = L->isAtomic() ? Kind : abi::SiteKind::Load;
    return Kept + Size(L->getType()) + "load";
  }
  if (auto *S = dyn_cast<StoreInst>(&I)) {
    Kind = S->isAtomic() ? Kind : abi::SiteKind::Store;
    return Kept + Size(S->getValueOperand()->getType()) + "store";
  }
  if (auto *W = dyn_cast<AtomicRMWInst>(&I))
    return "atomic " + Size(W->getType()) + AtomicRMWInst::getOperationName(W->getOperation()).str();
  if (auto *X = dyn_cast<AtomicCmpXchgInst>(&I))
    return "atomic " + Size(X->getNewValOperand()->getType()) + "compare-exchange";
  Kind = abi::SiteKind::Range;
  if (auto *MI = dyn_cast<MemIntrinsic>(&I)) {
    auto *Length = dyn_cast<ConstantInt>(MI->getLength());
    return (Length ? bytes(Length->getZExtValue()) : "") + (isa<MemSetInst>(MI) ? "fill" : "copy");
  }
  auto *Callee = cast<CallBase>(I).getCalledFunction();
  return "call of " + (Callee ? Callee->getName().str() : std::string("a function"));
}

Why::Answer &Why::begin(Instruction &I, const At &Asked, std::string What, abi::SiteKind Kind) {
  LLVMContext &C = M.getContext();
  auto *Number = ConstantInt::get(Type::getInt64Ty(C), Answers.size());
  I.setMetadata(WhyMark, MDNode::get(C, ConstantAsMetadata::get(Number)));
  const DISubprogram *Home = Asked.Scope->getSubprogram();
  Answer A;
  A.Asked = Asked.Place;
  A.File = Sites.path(Asked.Scope);
  A.Line = Asked.Line;
  A.Column = Asked.Column;
  A.Function = Told.nameOf(*I.getFunction());
  A.WrittenIn = Home && Home != I.getFunction()->getSubprogram() ? Told.nameOf(*Home) : "";
  if (const DILocation *Written = Asked.Written)
    A.Library = Told.nameOf(*Written->getScope()->getSubprogram()) + ", " + Told.place(*Written);
  A.What = std::move(What);
  std::optional<Spe> Element;
  if (Kind != abi::SiteKind::Range && Kind != abi::SiteKind::Assembly)
    Element = Elements.ofAccess(I);
  A.Element = Element ? Element->Name : "";
  A.IsObserved = false;
  Answers.push_back(std::move(A));
  return Answers.back();
}

void Why::observed(Answer &A, std::string Reason) {
  A.IsObserved = true;
  A.Rule = nameOf(Rule::Shared).str();
  A.Reason = std::move(Reason);
}

void Why::how(Answer &A, std::string Sentence) {
  if (!is_contained(A.How, Sentence))
    A.How.push_back(std::move(Sentence));
}

std::string Why::allOf(const Answer &A) {
  std::string Text = A.Loop;
  if (!A.How.empty())
    Text += (Text.empty() ? "" : "; otherwise ") + join(A.How, ", and ");
  if (!A.Part.empty())
    Text += (Text.empty() ? "" : "; ") + A.Part;
  return Text;
}

void Why::notObserved(Answer &A, Rule R, std::string Reason) {
  A.IsObserved = false;
  A.Rule = nameOf(R).str();
  A.Reason = std::move(Reason);
  A.How.clear();
}

void Why::memory(Answer &A, ArrayRef<const Value *> Pointers, const Function &F, bool IsObserved) {
  std::vector<std::string> Reasons;
  Rule First = Rule::Shared;
  for (const Value *P : Pointers)
    for (const Filters::Found &Object : Keep.objects(P)) {
      if (IsObserved != (Object.Why == Rule::Shared))
        continue;
      if (Reasons.empty())
        First = Object.Why;
      std::string Reason = Told.ofObject(Object, F);
      if (!is_contained(Reasons, Reason))
        Reasons.push_back(Reason);
    }
  // One that may be shared is enough to observe; not to observe, all have to be left out.
  if (IsObserved)
    return observed(A, Reasons.empty() ? "may be shared: nobody sees what its arguments lead to" : Reasons.front());
  notObserved(A, First, join(Reasons, "; or "));
}

Why::Answer *Why::about(const Instruction &I) {
  MDNode *N = I.getMetadata(WhyMark);
  return N ? &Answers[mdconst::extract<ConstantInt>(N->getOperand(0))->getZExtValue()] : nullptr;
}

void Why::answer(Instruction &I, const At &Asked) {
  if (auto *Call = dyn_cast<CallBase>(&I); Call && !Call->isInlineAsm())
    return call(*Call, Asked);
  if (isa<CallBase>(I)) // observeAssembly says what becomes of it
    begin(I, Asked, "inline assembly", abi::SiteKind::Assembly);
  else if (accessedPointer(I))
    access(I, Asked);
}

void Why::access(Instruction &I, const At &Asked) {
  abi::SiteKind Kind;
  std::string What = what(I, Kind);
  Answer &A = begin(I, Asked, What, Kind);
  const Function &F = *I.getFunction();
  const Value *Pointer = accessedPointer(I);
  if (I.isAtomic()) {
    bool Private = Keep.isPrivate(Pointer);
    memory(A, Pointer, F, !Private);
    if (!Private)
      how(A, "an atomic operation is always done by the runtime, at every scope");
    return;
  }
  if (!Options.Memory)
    return notObserved(A, Rule::SyncOnly, "the module is compiled for scope sync (REFRAIN_BUILD_SCOPE)");
  if (plainAccess(I, Keep, M.getDataLayout()))
    return memory(A, Pointer, F, true);
  if (auto *L = dyn_cast<LoadInst>(&I)) {
    if (Keep.ruleOf(*L) == Rule::Invariant)
      return notObserved(A, Rule::Invariant, "the compiler says that what is there never changes (invariant.load)");
    if (Keep.ruleOf(*L) == Rule::VirtualTable)
      return notObserved(A, Rule::VirtualTable, "an entry of a virtual table, which is constant; the pointer to the table is observed");
  }
  if (Keep.isPrivate(Pointer))
    return memory(A, Pointer, F, false);
  notObserved(A, Rule::NoMemoryForm, "values of its type have no form in memory that the runtime could store: no bytes, a scalable vector, or a tile");
}

void Why::call(CallBase &Call, const At &Asked) {
  const Function &F = *Call.getFunction();
  bool Range = touchesSharedRange(Call, Keep), Memory = isMemoryCall(Call, Keep);
  SmallVector<const Value *, 4> Pointers = memoryArguments(Call);
  abi::SiteKind Kind;
  if (isa<MemIntrinsic>(Call) || isMasked(Call)) {
    Answer &A = begin(Call, Asked, what(Call, Kind), Kind);
    if (!Options.Memory)
      return notObserved(A, Rule::SyncOnly, "the module is compiled for scope sync (REFRAIN_BUILD_SCOPE)");
    memory(A, Pointers, F, Range);
    auto *MI = dyn_cast<MemIntrinsic>(&Call);
    auto *Length = MI ? dyn_cast<ConstantInt>(MI->getLength()) : nullptr;
    if (Range && MI && !(Length && Length->getZExtValue() <= abi::ChunkBytes))
      how(A, "the runtime does it, as one range");
    return;
  }
  if (isUnknownIntrinsic(Call)) {
    Answer &A = begin(Call, Asked, what(Call, Kind), Kind);
    if (!Pointers.empty() && all_of(Pointers, [&](const Value *P) { return Keep.isPrivate(P); }))
      return memory(A, Pointers, F, false);
    return notObserved(A, Rule::UnknownInstruction, "the pass does not know what this instruction does with memory (docs/limits.md)");
  }
  if (!worksOnMemory(Call))
    return;
  Answer &A = begin(Call, Asked, what(Call, Kind), Kind);
  if (!Options.Memory)
    return notObserved(A, Rule::SyncOnly, "the module is compiled for scope sync (REFRAIN_BUILD_SCOPE)");
  if (Memory && Call.isMustTailCall())
    return notObserved(A, Rule::TailCall, "the compiler promises to make this call a jump (musttail), so no other function can stand in its place");
  if (!Memory)
    return memory(A, Pointers, F, false);
  memory(A, Pointers, F, true);
  how(A, "the runtime does it, on memory that it observes as one range for each argument");
}

void Why::write() {
  for (Function &F : M)
    for (Instruction &I : instructions(F))
      I.setMetadata(WhyMark, nullptr);
  const char *Path = std::getenv(AnswerVariable);
  std::error_code Failed;
  raw_fd_ostream Out(Path ? Path : "-", Failed, sys::fs::OF_Append);
  if (Failed)
    report_fatal_error("refrain: cannot write to what REFRAIN_BUILD_WHY_TO names: " + Twine(Failed.message()));
  for (size_t N = 0; N < Places.size(); N++)
    Out << "file\t" << N << '\t' << (Places[N].HasCode ? "code" : Places[N].HasFile ? "file" : "none") << '\n';
  for (const Answer &A : Answers) {
    // Without a word about it, assembly does not access memory of others.
    if (A.Rule.empty())
      continue;
    Out << "access\t" << A.Asked;
    for (StringRef Text : {StringRef(A.File), StringRef(A.Function), StringRef(A.WrittenIn), StringRef(A.Library), StringRef(A.What), StringRef(A.Element), StringRef(A.Rule), StringRef(A.Reason)})
      Out << '\t' << field(Text);
    Out << '\t' << A.Line << '\t' << A.Column << '\t' << A.IsObserved << '\t' << field(allOf(A)) << '\n';
  }
}

} // namespace refrain
