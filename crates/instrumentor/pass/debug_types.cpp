#include "debug_types.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace refrain {

namespace {

// Types may refer to themselves, and damaged debug information to anything.
constexpr unsigned DepthMax = 16;

const char *NoName = "(anonymous namespace)";

bool isRecord(const DIType *T) {
  auto *C = dyn_cast_or_null<DICompositeType>(T);
  return C && (C->getTag() == dwarf::DW_TAG_structure_type || C->getTag() == dwarf::DW_TAG_class_type ||
               C->getTag() == dwarf::DW_TAG_union_type);
}

bool isLambda(const DICompositeType *C) { return C->getTag() == dwarf::DW_TAG_class_type && C->getName().empty(); }

bool isUnion(const DIType *T) { return T->getTag() == dwarf::DW_TAG_union_type; }

const DICompositeType *asArray(const DIType *T) {
  auto *C = dyn_cast_or_null<DICompositeType>(T);
  return C && C->getTag() == dwarf::DW_TAG_array_type ? C : nullptr;
}

// The element type of arrays of arrays, and of nothing else itself.
const DIType *element(const DIType *T) {
  T = bare(T);
  for (unsigned I = 0; I < DepthMax && asArray(T); I++)
    T = bare(asArray(T)->getBaseType());
  return T;
}

uint64_t bytes(const DIType *T) { return T ? T->getSizeInBits() / 8 : 0; }

std::string withoutArguments(StringRef Name) {
  std::string Out;
  unsigned Depth = 0;
  for (char C : Name) {
    if (C == '<')
      Depth++;
    else if (C == '>' && Depth)
      Depth--;
    else if (!Depth)
      Out.push_back(C);
  }
  return Out;
}

StringRef lastPart(StringRef Name) {
  size_t At = Name.rfind("::");
  return At == StringRef::npos ? Name : Name.substr(At + 2);
}

// The bytes a member covers. clang accesses bit-fields from the beginning of their storage, so the first of those that
// share it stands for all.
std::pair<uint64_t, uint64_t> extent(const DIDerivedType *D) {
  uint64_t Size = D->getSizeInBits();
  if (!Size && D->getBaseType())
    Size = D->getBaseType()->getSizeInBits();
  return {D->getOffsetInBits() / 8, (D->getOffsetInBits() + Size + 7) / 8};
}

// The member or base class at Offset; members first, since they may lie in the padding of a base class. A flexible array
// has no size and reaches to the end.
const DIDerivedType *memberAt(const DICompositeType *C, uint64_t Offset) {
  const DIDerivedType *Flexible = nullptr, *Base = nullptr;
  // Empty base classes and [[no_unique_address]] members share the address of what follows.
  auto Empty = [](const DIDerivedType *D) {
    auto *Inner = dyn_cast_or_null<DICompositeType>(bare(D->getBaseType()));
    return Inner && isRecord(Inner) && bytes(Inner) == 1 && none_of(Inner->getElements(), [](const DINode *E) {
             auto *M = dyn_cast_or_null<DIDerivedType>(E);
             return M && !M->isStaticMember() && M->getTag() != dwarf::DW_TAG_typedef;
           });
  };
  for (const DINode *N : C->getElements()) {
    auto *D = dyn_cast_or_null<DIDerivedType>(N);
    if (!D || D->isStaticMember() ||
        (D->getTag() != dwarf::DW_TAG_member && D->getTag() != dwarf::DW_TAG_inheritance))
      continue;
    // Where a virtual base lies is only known at run time.
    if (D->getTag() == dwarf::DW_TAG_inheritance && (D->getFlags() & DINode::FlagVirtual))
      continue;
    auto [Begin, End] = extent(D);
    if (D->getTag() == dwarf::DW_TAG_inheritance && Begin <= Offset && Offset < End && !Empty(D)) {
      Base = D;
    } else if (Begin <= Offset && Offset < End && !Empty(D)) {
      return D;
    } else if (Begin == End && Begin <= Offset) {
      Flexible = D;
    }
  }
  return Base ? Base : Flexible;
}

} // namespace

const DIType *bare(const DIType *T) {
  for (unsigned I = 0; I < 64; I++) {
    auto *D = dyn_cast_or_null<DIDerivedType>(T);
    if (!D)
      return T;
    switch (D->getTag()) {
    case dwarf::DW_TAG_typedef:
    case dwarf::DW_TAG_const_type:
    case dwarf::DW_TAG_volatile_type:
    case dwarf::DW_TAG_restrict_type:
    case dwarf::DW_TAG_atomic_type:
    case dwarf::DW_TAG_immutable_type:
    case dwarf::DW_TAG_template_alias:
      T = D->getBaseType();
      break;
    default:
      return T;
    }
  }
  return nullptr;
}

std::string recordName(const StructType *S) {
  if (S->isLiteral() || !S->hasName())
    return "";
  std::string Whole = withoutArguments(S->getName());
  StringRef Name = Whole;
  if (!Name.consume_front("struct.") && !Name.consume_front("class.") && !Name.consume_front("union."))
    return "";
  Name = Name.split('.').first;
  return lastPart(Name) == "anon" ? "" : Name.str();
}

DebugTypes::DebugTypes(Module &M) : M(M) {
  DebugInfoFinder Finder;
  Finder.processModule(M);
  for (const DIType *T : Finder.types()) {
    if (auto *D = dyn_cast<DIDerivedType>(T); D && D->getTag() == dwarf::DW_TAG_typedef) {
      auto *C = dyn_cast_or_null<DICompositeType>(D->getBaseType());
      if (C && isRecord(C) && C->getName().empty())
        Typedefs.try_emplace(C, D->getName());
      continue;
    }
    auto *C = dyn_cast<DICompositeType>(T);
    if (!C || !isRecord(C))
      continue;
    bool Whole = !C->isForwardDecl();
    if (Whole && !C->getIdentifier().empty())
      ByIdentifier.try_emplace(C->getIdentifier(), C);
    if (Whole)
      for (const DINode *N : C->getElements()) {
        auto *D = dyn_cast_or_null<DIDerivedType>(N);
        if (!D || D->getTag() != dwarf::DW_TAG_member)
          continue;
        auto *Inner = dyn_cast_or_null<DICompositeType>(element(D->getBaseType()));
        if (Inner && isRecord(Inner) && Inner->getName().empty())
          Homes.try_emplace(Inner, Home{C, D->getName()});
      }
  }
  for (const DIType *T : Finder.types()) {
    auto *C = dyn_cast<DICompositeType>(T);
    if (!C || !isRecord(C) || C->isForwardDecl())
      continue;
    StringRef Name = C->getName().empty() ? Typedefs.lookup(C) : C->getName();
    if (!Name.empty())
      Records[withoutArguments(Name)].push_back(C);
  }
}

const DICompositeType *DebugTypes::definition(const DICompositeType *C) const {
  if (!C || !C->isForwardDecl())
    return C;
  if (const DICompositeType *Whole = ByIdentifier.lookup(C->getIdentifier()))
    return Whole;
  auto Found = Records.find(withoutArguments(C->getName()));
  if (C->getIdentifier().empty() && Found != Records.end() && Found->second.size() == 1)
    return Found->second.front();
  return C;
}

std::string DebugTypes::path(const DIScope *Scope) const {
  if (!Scope || Scope->getFilename().empty())
    return M.getSourceFileName();
  SmallString<256> Path;
  if (!sys::path::is_absolute(Scope->getFilename()))
    Path = Scope->getDirectory();
  sys::path::append(Path, Scope->getFilename());
  sys::path::remove_dots(Path, /*remove_dot_dot=*/true);
  return std::string(Path);
}

std::string DebugTypes::shortPath(const DIScope *Scope) const {
  SmallString<256> Path(path(Scope)), Home;
  if (!sys::path::is_absolute(Path))
    return std::string(Path);
  for (const DICompileUnit *Unit : M.debug_compile_units()) {
    Home = Unit->getDirectory();
    break;
  }
  sys::path::remove_dots(Home, /*remove_dot_dot=*/true);
  auto At = sys::path::begin(Path), End = sys::path::end(Path);
  auto Other = sys::path::begin(Home), OtherEnd = sys::path::end(Home);
  unsigned Shared = 0;
  for (; At != End && Other != OtherEnd && *At == *Other; ++At, ++Other)
    Shared++;
  // The root alone says nothing.
  if (Shared < 2)
    return std::string(Path);
  SmallString<256> Rest;
  for (; At != End; ++At)
    sys::path::append(Rest, *At);
  return std::string(Rest);
}

bool DebugTypes::ofLibrary(const DIScope *Scope) const {
  if (!Scope || Scope->getFilename().empty())
    return false;
  std::string Path = path(Scope);
  return StringRef(Path).starts_with("/usr/include/") || StringRef(Path).starts_with("/usr/lib/");
}

std::string DebugTypes::qualified(const DIScope *Scope) const {
  std::string Out;
  for (unsigned I = 0; Scope && I < DepthMax; I++, Scope = Scope->getScope()) {
    std::string Part;
    if (auto *C = dyn_cast<DICompositeType>(Scope))
      Part = C->getName().empty() ? typeName(C) : C->getName().str();
    else if (auto *N = dyn_cast<DINamespace>(Scope))
      Part = N->getName().empty() ? NoName : N->getName().str();
    else if (isa<DISubprogram>(Scope))
      Part = Scope->getName().str();
    else if (!isa<DILexicalBlockBase>(Scope))
      break;
    if (!Part.empty())
      Out = Out.empty() ? Part : Part + "::" + Out;
    // What has no name of its own is called after its home, all of it.
    if (auto *C = dyn_cast<DICompositeType>(Scope);
        C && C->getName().empty() && (isLambda(C) || !Typedefs.contains(C)))
      break;
  }
  return Out;
}

std::string DebugTypes::typeName(const DICompositeType *C) const {
  if (!C->getName().empty())
    return qualified(C);
  // Typedefs and homes of lambdas are those of the templates they go through.
  if (isLambda(C))
    return "lambda at " + shortPath(C->getFile()) + ":" + std::to_string(C->getLine());
  if (StringRef Name = Typedefs.lookup(C); !Name.empty())
    return Name.str();
  std::string Tail;
  for (unsigned I = 0; I < DepthMax; I++) {
    auto Found = Homes.find(C);
    if (Found == Homes.end())
      break;
    if (!Found->second.Member.empty())
      Tail = "." + Found->second.Member.str() + Tail;
    C = Found->second.Owner;
    if (!C->getName().empty() || Typedefs.contains(C))
      return typeName(C) + Tail;
  }
  return (Twine(isUnion(C) ? "union" : "struct") + " at " + shortPath(C->getFile()) + ":" + Twine(C->getLine()) + Tail).str();
}

std::optional<Field> DebugTypes::fieldAt(const DIType *T, uint64_t Offset, uint64_t Stride) const {
  T = bare(T);
  while (const DICompositeType *Array = asArray(T)) {
    const DIType *Inner = bare(Array->getBaseType());
    uint64_t Size = bytes(Inner);
    if (!Size)
      return std::nullopt;
    Offset %= Size;
    Stride %= Size;
    T = Inner;
  }
  auto *C = dyn_cast_or_null<DICompositeType>(T);
  if (!C || !isRecord(C))
    return std::nullopt;
  // Neighbours in an array we know nothing else about.
  if (uint64_t Size = bytes(definition(C)); Size && Stride && Stride % Size == 0)
    Offset %= Size, Stride = 0;
  return descend(C, Offset, Stride, 0);
}

std::optional<Field> DebugTypes::descend(const DICompositeType *C, uint64_t Offset, uint64_t Stride,
                                         unsigned Depth) const {
  C = definition(C);
  if (Depth > DepthMax)
    return std::nullopt;
  std::string Owner = typeName(C);
  Field Out = {"", path(C->getFile()), C->getLine(), ofLibrary(C->getFile())};
  if (isUnion(C)) {
    if (Offset >= bytes(C))
      return std::nullopt;
    // All members are the same memory.
    StringRef Between = ".";
    Out.Name = Owner;
    for (const DINode *N : C->getElements())
      if (auto *D = dyn_cast_or_null<DIDerivedType>(N); D && D->getTag() == dwarf::DW_TAG_member && !D->getName().empty())
        Out.Name += (Between + D->getName()).str(), Between = "|";
    return Out;
  }
  const DIDerivedType *D = memberAt(C, Offset);
  if (!D) {
    if (Stride || (bytes(C) && Offset >= bytes(C)))
      return std::nullopt;
    Out.Name = Owner + "+" + std::to_string(Offset);
    return Out;
  }
  Offset -= D->getOffsetInBits() / 8;
  auto *Inner = dyn_cast_or_null<DICompositeType>(bare(D->getBaseType()));
  if (D->getTag() == dwarf::DW_TAG_inheritance)
    return Inner ? descend(Inner, Offset, Stride, Depth + 1) : std::nullopt;
  while (const DICompositeType *Array = asArray(Inner)) {
    const DIType *One = bare(Array->getBaseType());
    if (!bytes(One))
      break;
    Offset %= bytes(One);
    Stride %= bytes(One);
    Inner = dyn_cast_or_null<DICompositeType>(One);
  }
  bool Array = asArray(bare(D->getBaseType()));
  // A variable offset that is not an index of this array could lead to any field.
  if (Stride && !Array)
    return std::nullopt;
  bool Nameless = D->getName().empty();
  if (Inner && isRecord(Inner) && (Nameless || !isUnion(Inner)) &&
      (!ofLibrary(definition(Inner)->getFile()) || Out.OfLibrary))
    if (std::optional<Field> Deeper = descend(Inner, Offset, Stride, Depth + 1))
      return Deeper;
  StringRef Name = D->getName();
  if (Name.starts_with("_vptr"))
    Name = "vptr";
  Out.Name = Owner + "." + Name.str();
  if (D->getLine()) {
    Out.File = path(D->getFile() ? D->getFile() : C->getFile());
    Out.Line = D->getLine();
  }
  return Out;
}

const DICompositeType *DebugTypes::recordByTag(StringRef Name) const {
  if (const DICompositeType *C = ByIdentifier.lookup(Name))
    return C;
  auto Found = Records.find(Name);
  return Found != Records.end() && Found->second.size() == 1 && Found->second.front()->getIdentifier().empty()
             ? Found->second.front()
             : nullptr;
}

// The part of T, at its beginning, that S can be: T itself, an element, a base class or the first member.
const DICompositeType *DebugTypes::partOf(const DIType *T, const StructType *S, unsigned Depth) const {
  auto *C = definition(dyn_cast_or_null<DICompositeType>(element(T)));
  if (!C || !isRecord(C) || Depth > DepthMax)
    return nullptr;
  std::string Wanted = recordName(S);
  StringRef Own = C->getName().empty() ? Typedefs.lookup(C) : C->getName();
  // Lambdas have a name in the debug information only.
  bool Anonymous = Own.empty() || Own.starts_with("(");
  bool Same = Wanted.empty() ? Anonymous : withoutArguments(Own) == lastPart(Wanted);
  if (Same)
    return C;
  const DIDerivedType *D = memberAt(C, 0);
  return D ? partOf(D->getBaseType(), S, Depth + 1) : nullptr;
}

const DICompositeType *DebugTypes::record(const StructType *S, const DIType *Hint) const {
  if (const DICompositeType *C = partOf(Hint, S, 0); C && !C->isForwardDecl())
    return C;
  std::string Name = recordName(S);
  auto Found = Records.find(lastPart(Name));
  if (Name.empty() || Found == Records.end())
    return nullptr;
  const DICompositeType *Only = nullptr;
  for (const DICompositeType *C : Found->second) {
    if (withoutArguments(qualified(C)) != Name && Found->second.size() > 1)
      continue;
    if (Only)
      return nullptr;
    Only = C;
  }
  return Only;
}

const DIGlobalVariable *DebugTypes::variable(const GlobalVariable &G) const {
  SmallVector<DIGlobalVariableExpression *, 1> Expressions;
  G.getDebugInfo(Expressions);
  // Several, or one with an expression, are parts of something the optimiser split or merged.
  if (Expressions.size() != 1 || Expressions[0]->getExpression()->getNumElements())
    return nullptr;
  return Expressions[0]->getVariable();
}

const DILocalVariable *DebugTypes::variable(const AllocaInst &A) const {
  const DILocalVariable *Only = nullptr;
  SmallVector<DbgVariableRecord *, 4> Records;
  append_range(Records, findDVRDeclares(const_cast<AllocaInst *>(&A)));
  // When optimising, clang's declarations have become assignments by the time of our first pass.
  append_range(Records, at::getDVRAssignmentMarkers(&A));
  for (DbgVariableRecord *D : Records) {
    if (D->getExpression()->getNumElements() || (Only && Only != D->getVariable()))
      return nullptr;
    Only = D->getVariable();
  }
  return Only;
}

const DIType *DebugTypes::stepInto(const GEPOperator &Address, const DIType *T) const {
  const DataLayout &DL = M.getDataLayout();
  bool First = true;
  for (auto At = gep_type_begin(Address), End = gep_type_end(Address); At != End; ++At) {
    if (First) { // past neighbours of the same type
      First = false;
      continue;
    }
    if (StructType *S = At.getStructTypeOrNull()) {
      const DICompositeType *C = record(S, T);
      if (!C || isUnion(C))
        return nullptr;
      unsigned Index = cast<ConstantInt>(At.getOperand())->getZExtValue();
      const DIDerivedType *D = memberAt(C, DL.getStructLayout(S)->getElementOffset(Index));
      T = D ? D->getBaseType() : nullptr;
    } else if (const DICompositeType *Array = asArray(bare(T))) {
      T = Array->getBaseType();
    }
    if (!T)
      return nullptr;
  }
  return T;
}

// The type of the innermost member Offset bytes into T, or of its elements.
const DIType *DebugTypes::leafAt(const DIType *T, uint64_t Offset) const {
  for (unsigned I = 0; I < DepthMax; I++) {
    const DIType *One = element(T);
    if (bytes(One) && asArray(bare(T)))
      Offset %= bytes(One);
    auto *C = definition(dyn_cast_or_null<DICompositeType>(One));
    if (!C || !isRecord(C))
      return One;
    const DIDerivedType *D = isUnion(C) ? nullptr : memberAt(C, Offset);
    if (!D)
      return nullptr;
    Offset -= D->getOffsetInBits() / 8;
    T = D->getBaseType();
  }
  return nullptr;
}

const DIType *DebugTypes::pointee(const Value *Pointer, unsigned Depth) const {
  if (Depth > DepthMax)
    return nullptr;
  auto Target = [](const DIType *T) -> const DIType * {
    auto *D = dyn_cast_or_null<DIDerivedType>(bare(T));
    bool Refers = D && (D->getTag() == dwarf::DW_TAG_pointer_type || D->getTag() == dwarf::DW_TAG_reference_type ||
                        D->getTag() == dwarf::DW_TAG_rvalue_reference_type);
    return Refers ? D->getBaseType() : nullptr;
  };
  if (auto *G = dyn_cast<GlobalVariable>(Pointer)) {
    const DIGlobalVariable *V = variable(*G);
    return V ? V->getType() : nullptr;
  }
  if (auto *A = dyn_cast<AllocaInst>(Pointer)) {
    const DILocalVariable *V = variable(*A);
    return V ? V->getType() : nullptr;
  }
  if (auto *L = dyn_cast<LoadInst>(Pointer)) {
    const Value *From = L->getPointerOperand();
    if (const DIType *T = Target(pointee(From, Depth + 1)))
      return T;
    // After optimisation: a number of bytes into something.
    const DataLayout &DL = M.getDataLayout();
    APInt Offset(DL.getIndexTypeSizeInBits(From->getType()), 0);
    const Value *Base = From->stripAndAccumulateConstantOffsets(DL, Offset, /*AllowNonInbounds=*/true);
    if (!Offset.isNegative())
      if (const DIType *T = Target(leafAt(pointee(Base, Depth + 1), Offset.getZExtValue())))
        return T;
  }
  if (auto *Address = dyn_cast<GEPOperator>(Pointer)) {
    // Bytes: an adjustment to a base class, or arithmetic that no type describes.
    if (Address->getSourceElementType()->isIntegerTy(8))
      return nullptr;
    return stepInto(*Address, pointee(Address->getPointerOperand(), Depth + 1));
  }
  if (auto *II = dyn_cast<IntrinsicInst>(Pointer); II && II->getIntrinsicID() == Intrinsic::threadlocal_address)
    return pointee(II->getArgOperand(0), Depth + 1);
  if (auto *Call = dyn_cast<CallBase>(Pointer)) {
    const Function *F = Call->getCalledFunction();
    const DISubprogram *S = F ? F->getSubprogram() : nullptr;
    const DISubroutineType *Signature = S ? S->getType() : nullptr;
    if (Signature && Signature->getTypeArray() && Signature->getTypeArray().size())
      if (const DIType *T = Target(Signature->getTypeArray()[0]))
        return T;
  }
  // After optimisation a variable is described by the values it had. Of several, one of the program's types says most.
  const DIType *Any = nullptr;
  for (DbgVariableRecord *D : findDVRValues(const_cast<Value *>(Pointer))) {
    if (D->hasArgList() || D->getExpression()->getNumElements())
      continue;
    const DIType *T = Target(D->getVariable()->getType());
    if (isRecord(element(T)) && !ofLibrary(element(T)->getFile()))
      return T;
    Any = Any ? Any : T;
  }
  return Any;
}

} // namespace refrain
