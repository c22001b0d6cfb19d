#include "sites.h"
#include "options.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace refrain {

namespace {

void put(std::string &Out, uint64_t Value, unsigned Bytes) {
  for (unsigned I = 0; I < Bytes; I++)
    Out.push_back(static_cast<char>(Value >> (8 * I)));
}

bool isOfRust(const Module &M) {
  return any_of(M.debug_compile_units(), [](const DICompileUnit *Unit) {
    return Unit->getSourceLanguage().getUnversionedName() == dwarf::DW_LANG_Rust;
  });
}

// Rust copies what is inside an enum whether it is there or not, so a load may see bytes that nobody has set, unless the
// compiler says otherwise. What such bytes hold does not come back, and does not matter.
bool mayBeUndefined(const Instruction &I) { return isa<LoadInst>(I) && !I.hasMetadata(LLVMContext::MD_noundef); }

// Whose source is it? A reader looks for a mistake in their own first, then in a package they chose.
enum class Owner { Reader, Package, Library };

Owner ownerOf(StringRef File) {
  SmallString<256> Path(File);
  sys::path::remove_dots(Path, /*remove_dot_dot=*/true);
  StringRef P = Path;
  if (P.starts_with("/usr/include/") || P.starts_with("/usr/lib/") || P.starts_with("/usr/local/include/") ||
      P.starts_with("/rustc/") || P.contains("/lib/rustlib/src/"))
    return Owner::Library;
  if (P.contains("/registry/src/") || P.contains("/.cargo/git/checkouts/"))
    return Owner::Package;
  return Owner::Reader;
}

} // namespace

bool isOfStandardLibrary(const DIScope *Scope) {
  return Scope->getFilename().starts_with("/rustc/") ||
         (Scope->getDirectory().starts_with("/rustc/") && !sys::path::is_absolute(Scope->getFilename()));
}

SiteTable::SiteTable(Module &M, Names &Elements) : M(M), IsRust(isOfRust(M)), Elements(Elements) {
  // Records are referred to before the table's size is known.
  Placeholder = new GlobalVariable(M, Type::getInt8Ty(M.getContext()), true, GlobalValue::ExternalLinkage, nullptr,
                                   "refrain.sites.placeholder");
  string("");
}

uint32_t SiteTable::string(StringRef S) {
  auto [It, New] = Strings.try_emplace(S, StringBytes.size());
  if (New) {
    StringBytes += S.str();
    StringBytes.push_back('\0');
  }
  return It->second;
}

std::string SiteTable::path(const DIScope *Scope) const {
  if (!Scope || Scope->getFilename().empty())
    return M.getSourceFileName();
  if (sys::path::is_absolute(Scope->getFilename()) || Scope->getDirectory().empty())
    return Scope->getFilename().str();
  SmallString<256> Path(Scope->getDirectory());
  sys::path::append(Path, Scope->getFilename());
  return std::string(Path);
}

// What the instruction accesses; 0 if it does not say.
uint32_t SiteTable::element(const Instruction &I, abi::SiteKind Kind) {
  std::optional<Spe> S;
  auto *Call = dyn_cast<CallBase>(&I);
  if (Kind == abi::SiteKind::Allocation)
    S = Elements.ofAllocation(*Call);
  else if (Kind == abi::SiteKind::SyncCall)
    S = Elements.ofLock(*Call);
  else if (Kind != abi::SiteKind::Range && Kind != abi::SiteKind::Assembly)
    S = Elements.ofAccess(I);
  if (!S)
    return 0;
  uint32_t Id = S->id();
  Spes.try_emplace({Id, S->Name}, *S);
  return Id;
}

uint32_t SiteTable::elementOf(const Instruction &I, abi::SiteKind Kind) {
  uint32_t Id = element(I, Kind);
  return Id ? Id : abi::SpeUnnamed;
}

// Of the places that were inlined into each other, the innermost in the reader's own source; if there is none, the
// innermost of a package; if there is none either, the outermost: what was called.
const DILocation *SiteTable::readersLine(const DILocation *Written) const {
  const DILocation *OfPackage = nullptr, *Last = Written;
  for (const DILocation *L = Written; L; Last = L, L = L->getInlinedAt()) {
    Owner O = ownerOf(path(L->getScope()));
    if (O == Owner::Reader)
      return L;
    if (O == Owner::Package && !OfPackage)
      OfPackage = L;
  }
  return OfPackage ? OfPackage : Last;
}

Constant *SiteTable::site(const Instruction &I, abi::SiteKind Kind, uint64_t Bytes) {
  const Function *F = I.getFunction();
  StringRef Name = F->getName();
  if (!Name.consume_back(abi::CloneSuffix))
    Name.consume_back(abi::CoopSuffix);
  const DISubprogram *Home = F->getSubprogram();
  const DIScope *Scope = Home;
  uint32_t Line = Home ? Home->getLine() : 0, Column = 0;
  uint32_t LibraryLine = 0, LibraryFile = 0;
  if (const DILocation *Written = locationNear(I)) {
    // All atomics of a Rust program are written in the library, all containers of a C++ program; the reader wants the line
    // that uses it, and perhaps what it calls there: a lock says more than the atomic inside.
    const DILocation *L = readersLine(Written);
    if (L != Written) {
      const DILocation *Called = Written;
      while (Called->getInlinedAt() != L)
        Called = Called->getInlinedAt();
      LibraryLine = Called->getLine();
      LibraryFile = string(path(Called->getScope()));
    }
    Line = L->getLine();
    Column = L->getColumn();
    Scope = L->getScope();
    if (L->getInlinedAt()) {
      // The reader wants the function that was written at this line, not the one it was inlined into.
      const DISubprogram *Inlined = L->getScope()->getSubprogram();
      Name = Inlined->getLinkageName().empty() ? Inlined->getName() : Inlined->getLinkageName();
    }
  }
  uint32_t Size = Bytes ? Log2_64_Ceil(Bytes) : 0;
  Key K = {Line, std::min<uint32_t>(Column, 0xffff) | static_cast<uint32_t>(Kind) << 16 | Size << 24,
           string(path(Scope)), string(Name), element(I, Kind),
           IsRust && mayBeUndefined(I) ? abi::SiteMayBeUndefined : 0,
           LibraryLine, LibraryFile};
  auto [It, New] = Index.try_emplace(K, Records.size());
  if (New)
    Records.push_back(K);
  uint64_t Offset = abi::SiteHeaderBytes + uint64_t(It->second) * abi::SiteRecordBytes;
  return ConstantExpr::getGetElementPtr(Type::getInt8Ty(M.getContext()), Placeholder,
                                        ConstantInt::get(Type::getInt64Ty(M.getContext()), Offset));
}

uint32_t SiteTable::unitOf(const Constant *Site, const DataLayout &DL) {
  APInt Offset(DL.getIndexTypeSizeInBits(Site->getType()), 0);
  Site->stripAndAccumulateConstantOffsets(DL, Offset, /*AllowNonInbounds=*/true);
  return Offset.getZExtValue() / 16;
}

void SiteTable::emit() {
  if (Records.empty() && Placeholder->use_empty()) {
    Placeholder->eraseFromParent();
    return;
  }
  std::string SpeBytes;
  for (const auto &[Key, S] : Spes)
    for (uint32_t Word : {Key.first, static_cast<uint32_t>(S.Kind), string(S.Name), string(S.File), S.Line})
      put(SpeBytes, Word, 4);
  uint64_t Total = alignTo(
      abi::SiteHeaderBytes + Records.size() * abi::SiteRecordBytes + SpeBytes.size() + StringBytes.size(), 16);
  std::string Blob = abi::SiteMagic;
  put(Blob, abi::SiteVersion, 4);
  put(Blob, Records.size(), 4);
  put(Blob, StringBytes.size(), 4);
  put(Blob, Total, 4);
  put(Blob, Spes.size(), 4);
  put(Blob, (observesPlainAccesses() ? 0 : abi::SiteTableSyncOnly) | (Options().Counted ? abi::SiteTableCounted : 0) |
                (Options().Parts ? abi::SiteTableParts : 0), 4);
  for (const Key &K : Records) {
    for (uint32_t Word : K)
      put(Blob, Word, 4);
    Blob.resize(Blob.size() + abi::SiteRecordBytes - 4 * K.size(), '\0');
  }
  Blob += SpeBytes;
  Blob += StringBytes;
  Blob.resize(Total, '\0');

  Constant *Data = ConstantDataArray::getString(M.getContext(), Blob, /*AddNull=*/false);
  auto *Table = new GlobalVariable(M, Data->getType(), true, GlobalValue::PrivateLinkage, Data, "refrain.sites");
  Table->setSection(abi::SiteSection);
  Table->setAlignment(Align(16));
  // llvm.used sets SHF_GNU_RETAIN: --gc-sections must not leave the bounds symbols without a section.
  appendToUsed(M, {Table});
  Placeholder->replaceAllUsesWith(Table);
  Placeholder->eraseFromParent();
  emitRegistration();
}

// Every module carries the constructor; the comdat leaves one per executable or shared library, and the hidden bounds
// symbols are those of the same object.
void SiteTable::emitRegistration() {
  LLVMContext &C = M.getContext();
  Type *Void = Type::getVoidTy(C), *Ptr = PointerType::get(C, 0), *I8 = Type::getInt8Ty(C), *I32 = Type::getInt32Ty(C);
  auto Bound = [&](StringRef Prefix) {
    auto *G = cast<GlobalVariable>(M.getOrInsertGlobal((Prefix + abi::SiteSection).str(), I8));
    G->setVisibility(GlobalValue::HiddenVisibility);
    return G;
  };
  const char *Name = "__refrain_register_sites";
  Function *F = Function::Create(FunctionType::get(Void, false), GlobalValue::LinkOnceODRLinkage, Name, M);
  F->setVisibility(GlobalValue::HiddenVisibility);
  F->setComdat(M.getOrInsertComdat(Name));
  F->addFnAttr(Attribute::NoUnwind);
  F->setUWTableKind(UWTableKind::Default);
  IRBuilder<> B(BasicBlock::Create(C, "entry", F));
  FunctionCallee Register = M.getOrInsertFunction("__refrain_register", Void, Ptr, Ptr, I32);
  B.CreateCall(Register, {Bound("__start_"), Bound("__stop_"), ConstantInt::get(I32, abi::Version)});
  B.CreateRetVoid();
  // 101 is the first priority that is not reserved to the implementation: before any of the program's constructors.
  appendToGlobalCtors(M, F, 101, F);
}

} // namespace refrain
