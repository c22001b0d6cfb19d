#include "names.h"
#include "whole.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include "llvm/ADT/StringSet.h"
#include <numeric>

using namespace llvm;

namespace refrain {

namespace {

constexpr const char *Metadata = "refrain.spe";
constexpr unsigned StepsMax = 32;

bool isThreadLocalAddress(const Value *V) {
  auto *II = dyn_cast<IntrinsicInst>(V);
  return II && II->getIntrinsicID() == Intrinsic::threadlocal_address;
}

// A pointer as Base + Offset + n * Stride, with n unknown; Stride is 0 if nothing is.
struct Address {
  const Value *Base;
  int64_t Offset = 0;
  uint64_t Stride = 0;
};

Address splitAddress(const Value *Pointer, const DataLayout &DL) {
  Address A = {Pointer};
  for (unsigned I = 0; I < StepsMax; I++) {
    if (auto *G = dyn_cast<GEPOperator>(A.Base)) {
      unsigned Bits = DL.getIndexTypeSizeInBits(G->getType());
      SmallMapVector<Value *, APInt, 4> Variable;
      APInt Constant(Bits, 0);
      if (!G->getType()->isPointerTy() || !G->collectOffset(DL, Bits, Variable, Constant))
        break;
      A.Offset += Constant.getSExtValue();
      for (auto &[Index, Scale] : Variable)
        A.Stride = std::gcd(A.Stride, Scale.abs().getZExtValue());
      A.Base = G->getPointerOperand();
    } else if (isThreadLocalAddress(A.Base)) {
      A.Base = cast<IntrinsicInst>(A.Base)->getArgOperand(0);
    } else {
      break;
    }
  }
  return A;
}

// counter (bank.c)
std::string withPlace(StringRef Name, StringRef Place) { return (Name + " (" + Place + ")").str(); }

// A field whose name is not known.
Spe byNumber(StringRef Type, uint64_t Offset) {
  return {abi::SpeKind::Field, (Type + "+" + Twine(Offset)).str(), "", 0,
          Type.starts_with("std::") || Type.starts_with("__")};
}

} // namespace

const Value *accessedPointer(const Instruction &I) {
  if (const Value *P = getLoadStorePointerOperand(&I))
    return P;
  if (auto *W = dyn_cast<AtomicRMWInst>(&I))
    return W->getPointerOperand();
  if (auto *X = dyn_cast<AtomicCmpXchgInst>(&I))
    return X->getPointerOperand();
  return nullptr;
}

Function *libraryCallee(const CallBase &Call) {
  auto *Callee = dyn_cast_or_null<Function>(Call.getCalledOperand()->stripPointerCasts());
  return Callee && Callee->isDeclaration() && !Callee->isIntrinsic() ? Callee : nullptr;
}

const Value *lockArgument(const CallBase &Call) {
  static const char *First[] = {"pthread_mutex_", "pthread_rwlock_", "pthread_spin_", "pthread_cond_",
                                "pthread_barrier_", "pthread_once", "sem_", "mtx_", "cnd_", "call_once",
                                "__cxa_guard_", "omp_set_", "omp_unset_", "omp_test_", "omp_init_", "omp_destroy_",
                                "_ZNSt18condition_variable", "_ZNSt22condition_variable_any"};
  Function *Callee = libraryCallee(Call);
  if (!Callee)
    return nullptr;
  StringRef Name = Callee->getName();
  unsigned At = 0;
  if (Name.starts_with("__kmpc_critical") || Name == "__kmpc_end_critical")
    At = 2;
  else if (Name == "sem_open" || none_of(First, [&](const char *P) { return Name.starts_with(P); }))
    return nullptr;
  return At < Call.arg_size() && Call.getArgOperand(At)->getType()->isPointerTy() ? Call.getArgOperand(At) : nullptr;
}

bool allocates(const CallBase &Call) {
  static const StringSet<> Functions = {"malloc",         "calloc",   "realloc", "reallocarray", "aligned_alloc",
                                        "posix_memalign", "memalign", "valloc",  "pvalloc",      "strdup",
                                        "strndup",        "__strdup", "__strndup"};
  Function *Callee = libraryCallee(Call);
  // _Znwm and _Znam are operator new and new[]; what follows says which arguments they have.
  return Callee && (Functions.contains(Callee->getName()) || Callee->getName().starts_with("_Znw") ||
                    Callee->getName().starts_with("_Zna"));
}

const DILocation *locationNear(const Instruction &I) {
  for (const Instruction *At = &I; At; At = At->getPrevNode())
    if (const DILocation *L = At->getDebugLoc().get(); L && L->getLine() != 0)
      return L;
  return nullptr;
}

// FNV-1a of the kind and the name, folded to 32 bits.
uint32_t Spe::id() const {
  uint64_t Hash = 0xcbf29ce484222325;
  auto Add = [&](unsigned char Byte) { Hash = (Hash ^ Byte) * 0x100000001b3; };
  Add(static_cast<unsigned char>(Kind));
  for (char C : Name)
    Add(static_cast<unsigned char>(C));
  uint32_t Folded = static_cast<uint32_t>(Hash ^ (Hash >> 32));
  return Folded < abi::SpeFirst ? Folded + abi::SpeFirst : Folded;
}

Names::Names(Module &M) : M(M), Types(M) {
  for (Function &F : M)
    for (Instruction &I : instructions(F))
      if (auto *Call = dyn_cast<CallBase>(&I); Call && allocates(*Call)) {
        Place P = placeOf(*Call);
        if (P.At)
          Allocations[{P.File, P.At->getLine(), P.Function}].insert(P.At->getColumn());
      }
}

Spe Names::ofField(const Field &F) const { return {abi::SpeKind::Field, F.Name, F.File, F.Line, F.OfLibrary}; }

// By LLVM's types alone: all there is for a variable that is defined elsewhere, or without debug information.
std::optional<Spe> Names::ofStruct(Type *T, uint64_t Offset, uint64_t Stride) {
  const DataLayout &DL = M.getDataLayout();
  for (unsigned I = 0; I < StepsMax; I++) {
    if (auto *A = dyn_cast<ArrayType>(T)) {
      T = A->getElementType();
      uint64_t Size = DL.getTypeAllocSize(T);
      if (!Size)
        return std::nullopt;
      Offset %= Size;
      Stride %= Size;
      continue;
    }
    auto *S = dyn_cast<StructType>(T);
    if (!S || S->isOpaque() || Offset >= DL.getTypeAllocSize(S))
      return std::nullopt;
    if (const DICompositeType *C = Types.record(S, nullptr)) {
      std::optional<Field> F = Types.fieldAt(C, Offset, Stride);
      return F ? std::optional<Spe>(ofField(*F)) : std::nullopt;
    }
    const StructLayout *Layout = DL.getStructLayout(S);
    unsigned Index = Layout->getElementContainingOffset(Offset);
    uint64_t Begin = Layout->getElementOffset(Index);
    Type *Inner = S->getElementType(Index), *Element = Inner;
    while (auto *A = dyn_cast<ArrayType>(Element))
      Element = A->getElementType();
    auto *Deeper = dyn_cast<StructType>(Element);
    if (Deeper && !recordName(Deeper).empty() && !StringRef(Deeper->getName()).starts_with("union.")) {
      T = Inner;
      Offset -= Begin;
      continue;
    }
    if (recordName(S).empty() || (Stride && !isa<ArrayType>(Inner)))
      return std::nullopt;
    return byNumber(recordName(S), Begin);
  }
  return std::nullopt;
}

std::optional<Spe> Names::ofGlobal(const GlobalVariable &G, uint64_t Offset, uint64_t Stride) {
  const DIGlobalVariable *V = Types.variable(G);
  if (V) {
    if (std::optional<Field> F = Types.fieldAt(V->getType(), Offset, Stride); F && !F->OfLibrary)
      if (!StringRef(F->Name).contains('|')) // a variable says more than a union
        return ofField(*F);
  } else if (std::optional<Spe> S = ofStruct(G.getValueType(), Offset, Stride); S && !S->OfLibrary) {
    return S;
  }
  Spe Out = {abi::SpeKind::Global, demangle(G.getName().str()), "", 0, false};
  if (V) {
    const DIScope *Scope = V->getScope();
    bool Inside = isa_and_nonnull<DILocalScope>(Scope);
    std::string Outer = Inside ? "" : Types.qualified(Scope);
    Out.Name = Outer.empty() ? V->getName().str() : Outer + "::" + V->getName().str();
    if (auto *Static = V->getStaticDataMemberDeclaration())
      Out.Name = Types.qualified(Static->getScope()) + "::" + Static->getName().str();
    if (Inside)
      Out.Name = withPlace(Out.Name, Types.qualified(cast<DILocalScope>(Scope)->getSubprogram()));
    else if (G.hasLocalLinkage())
      Out.Name = withPlace(Out.Name, Types.shortPath(V->getFile()));
    Out.File = Types.path(V->getFile());
    Out.Line = V->getLine();
  } else if (G.hasLocalLinkage()) {
    Out.Name = withPlace(Out.Name, M.getSourceFileName());
  }
  return Out;
}

std::optional<Spe> Names::ofLocal(const AllocaInst &A, uint64_t Offset, uint64_t Stride) {
  const DILocalVariable *V = Types.variable(A);
  if (!V)
    return std::nullopt;
  if (std::optional<Field> F = Types.fieldAt(V->getType(), Offset, Stride); F && !F->OfLibrary)
    if (!StringRef(F->Name).contains('|'))
      return ofField(*F);
  if (V->getName().empty())
    return std::nullopt;
  return Spe{abi::SpeKind::Other, withPlace(V->getName(), Types.qualified(V->getScope()->getSubprogram())),
             Types.path(V->getFile()), V->getLine(), false};
}

// Late: local variables and what the debug information says about values; before that clang's types say it better.
std::optional<Spe> Names::byOffset(const Value *Pointer, bool Late) {
  Address A = splitAddress(Pointer, M.getDataLayout());
  if (auto *G = dyn_cast<GlobalVariable>(A.Base))
    return A.Offset >= 0 ? ofGlobal(*G, A.Offset, A.Stride) : std::nullopt;
  if (!Late || A.Offset < 0)
    return std::nullopt;
  if (auto *Local = dyn_cast<AllocaInst>(A.Base))
    return ofLocal(*Local, A.Offset, A.Stride);
  if (const DIType *T = Types.pointee(A.Base))
    if (std::optional<Field> F = Types.fieldAt(T, A.Offset, A.Stride); F && !F->OfLibrary)
      return ofField(*F);
  return std::nullopt;
}

// The step nearest to the access that names a struct decides.
std::optional<Spe> Names::typed(const Value *Pointer) {
  const DataLayout &DL = M.getDataLayout();
  const Value *V = Pointer;
  for (unsigned I = 0; I < StepsMax; I++) {
    auto *G = dyn_cast<GEPOperator>(V);
    if (!G)
      break;
    StructType *S = nullptr;
    uint64_t Offset = 0;
    unsigned Steps = 0;
    for (auto At = gep_type_begin(G), End = gep_type_end(G); At != End; ++At)
      if (StructType *Here = At.getStructTypeOrNull()) {
        S = Here;
        Offset = DL.getStructLayout(S)->getElementOffset(cast<ConstantInt>(At.getOperand())->getZExtValue());
        Steps++;
      }
    if (S) {
      // Of several steps at once only the type of the first is known beforehand.
      const DICompositeType *C = Types.record(S, Steps == 1 ? Types.pointee(G->getPointerOperand()) : nullptr);
      if (C)
        if (std::optional<Field> F = Types.fieldAt(C, Offset, 0))
          return ofField(*F);
      std::string Name = recordName(S);
      return Name.empty() ? std::nullopt : std::optional<Spe>(byNumber(Name, Offset));
    }
    V = G->getPointerOperand();
  }
  // No step at all: the first thing in an object, such as the pointer to its virtual table, or a union.
  if (V != Pointer || isa<AllocaInst>(V))
    return std::nullopt;
  if (const DIType *T = Types.pointee(V))
    if (std::optional<Field> F = Types.fieldAt(T, 0, 0); F && !F->OfLibrary)
      return ofField(*F);
  return std::nullopt;
}

std::optional<Spe> Names::byAliasTag(const MDNode *Tag) {
  if (!Tag || Tag->getNumOperands() < 3)
    return std::nullopt;
  auto *Base = dyn_cast_or_null<MDNode>(Tag->getOperand(0).get());
  auto *Offset = mdconst::dyn_extract_or_null<ConstantInt>(Tag->getOperand(2));
  if (!Base || !Offset || Base == Tag->getOperand(1).get() || Base->getNumOperands() < 3)
    return std::nullopt;
  auto *Name = dyn_cast_or_null<MDString>(Base->getOperand(0).get());
  if (!Name || Name->getString().empty())
    return std::nullopt;
  if (const DICompositeType *C = Types.recordByTag(Name->getString()))
    if (std::optional<Field> F = Types.fieldAt(C, Offset->getZExtValue(), 0))
      return ofField(*F);
  std::string Plain = demangle(Name->getString().str());
  StringRef Type = Plain;
  Type.consume_front("typeinfo name for ");
  return byNumber(Type, Offset->getZExtValue());
}

void Names::keep(Function &F) {
  LLVMContext &C = M.getContext();
  auto String = [&](StringRef S) { return MDString::get(C, S); };
  auto Number = [&](uint32_t N) { return ConstantAsMetadata::get(ConstantInt::get(Type::getInt32Ty(C), N)); };
  for (Instruction &I : instructions(F)) {
    const Value *Pointer = accessedPointer(I);
    auto *Call = dyn_cast<CallBase>(&I);
    if (Call)
      Pointer = lockArgument(*Call);
    std::optional<Spe> S;
    if (Pointer && !isa<AllocaInst>(Pointer)) {
      S = byOffset(Pointer, /*Late=*/false);
      if (!S)
        S = typed(Pointer);
    } else if (Call && allocates(*Call)) {
      // Here, because which other allocations stand in the line should not depend on optimisation. Code of libraries
      // has to be inlined before there is a name to give.
      const DILocation *Near = locationNear(*Call);
      if (Near && !Types.ofLibrary(Near->getScope()))
        S = ofAllocation(*Call);
    }
    if (S)
      I.setMetadata(Metadata, MDNode::get(C, {Number(static_cast<uint32_t>(S->Kind)), String(S->Name),
                                              String(S->File), Number(S->Line), Number(S->OfLibrary)}));
  }
}

std::optional<Spe> Names::kept(const Instruction &I) const {
  const MDNode *N = I.getMetadata(Metadata);
  if (!N || N->getNumOperands() != 5)
    return std::nullopt;
  auto Number = [&](unsigned At) {
    auto *Value = mdconst::dyn_extract_or_null<ConstantInt>(N->getOperand(At));
    return Value ? static_cast<uint32_t>(Value->getZExtValue()) : 0;
  };
  auto String = [&](unsigned At) {
    auto *Value = dyn_cast_or_null<MDString>(N->getOperand(At).get());
    return Value ? Value->getString().str() : std::string();
  };
  return Spe{static_cast<abi::SpeKind>(Number(0)), String(1), String(2), Number(3), Number(4) != 0};
}

std::optional<Spe> Names::found(const Instruction &I, const Value *Pointer) {
  std::optional<Spe> Kept = kept(I);
  if (Kept && !Kept->OfLibrary)
    return Kept;
  if (std::optional<Spe> S = byOffset(Pointer, /*Late=*/true))
    return S;
  if (Kept)
    return Kept;
  if (std::optional<Spe> S = byAliasTag(I.getMetadata(LLVMContext::MD_tbaa)))
    return S;
  return std::nullopt;
}

std::optional<Spe> Names::ofAccess(const Instruction &I) {
  const Value *Pointer = accessedPointer(I);
  return Pointer ? found(I, Pointer) : std::nullopt;
}

std::optional<Spe> Names::ofLock(const CallBase &Call) {
  const Value *Pointer = lockArgument(Call);
  std::optional<Spe> S = Pointer ? found(Call, Pointer) : std::nullopt;
  if (S)
    S->Kind = abi::SpeKind::Lock;
  return S;
}

// Where the program asks for the memory: not in the library's code that was inlined there, if there is such a place.
Names::Place Names::placeOf(const CallBase &Call) const {
  const DILocation *Near = locationNear(Call), *At = Near;
  while (At && Types.ofLibrary(At->getScope()))
    At = At->getInlinedAt();
  if (!At)
    At = Near;
  StringRef Plain = Call.getFunction()->getName();
  Plain.consume_back(abi::CloneSuffix);
  const DISubprogram *Home = At ? At->getScope()->getSubprogram() : Call.getFunction()->getSubprogram();
  return {Types.shortPath(At ? static_cast<const DIScope *>(At->getScope()) : Home),
          Home ? Types.qualified(Home) : demangle(Plain.str()), At};
}

Spe Names::ofAllocation(const CallBase &Call) {
  if (std::optional<Spe> Kept = kept(Call))
    return *Kept;
  Place P = placeOf(Call);
  uint32_t Line = P.At ? P.At->getLine() : 0;
  std::string Name = P.File;
  if (P.At) {
    Name += ":" + std::to_string(Line);
    auto Found = Allocations.find({P.File, Line, P.Function});
    if (Found != Allocations.end() && Found->second.size() > 1)
      Name += ":" + std::to_string(P.At->getColumn());
  }
  const DIScope *Scope = P.At ? static_cast<const DIScope *>(P.At->getScope()) : Call.getFunction()->getSubprogram();
  return {abi::SpeKind::Array, "allocated at " + withPlace(Name, P.Function), Types.path(Scope), Line, false};
}

PreservedAnalyses NamePass::run(Module &M, ModuleAnalysisManager &) {
  // What was held has its names.
  if (M.getNamedMetadata(abi::ModuleMark) || M.getNamedMetadata(HeldMark))
    return PreservedAnalyses::all();
  Names N(M);
  for (Function &F : M)
    N.keep(F);
  return PreservedAnalyses::all();
}

void forgetNames(Module &M) {
  for (Function &F : M)
    for (Instruction &I : instructions(F))
      I.setMetadata(Metadata, nullptr);
  // Of a whole program, what some units are to keep is kept of all.
  bool Borrowed = all_of(M.debug_compile_units(),
                         [](const DICompileUnit *Unit) { return Unit->getFlags() == abi::BorrowedTypes; });
  if (Borrowed && !M.debug_compile_units().empty())
    stripNonLineTableDebugInfo(M);
}

} // namespace refrain
