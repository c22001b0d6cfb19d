#include "units.h"
#include "names.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace refrain {

namespace {

constexpr const char *NumberMark = "refrain.number";

void put(std::string &Out, uint64_t Value, unsigned Bytes) {
  for (unsigned I = 0; I < Bytes; I++)
    Out.push_back(static_cast<char>(Value >> (8 * I)));
}

// FNV-1a: whoever reads the bitcode back compares it.
uint64_t hashOf(StringRef Bytes) {
  uint64_t Hash = 0xcbf29ce484222325;
  for (unsigned char Byte : Bytes)
    Hash = (Hash ^ Byte) * 0x100000001b3;
  return Hash;
}

// Others are computed from these.
bool isNamed(const Instruction &I) { return I.mayReadOrWriteMemory() || isa<CallBase>(I) || isa<AllocaInst>(I); }

// Without what only debuggers and this pass want to know; lines are in the table.
std::string bitcodeOf(Module &M) {
  std::unique_ptr<Module> Copy = CloneModule(M);
  forgetNames(*Copy);
  StripDebugInfo(*Copy);
  if (NamedMDNode *Mark = Copy->getNamedMetadata(abi::ModuleMark))
    Copy->eraseNamedMetadata(Mark);
  std::string Bytes;
  raw_string_ostream Out(Bytes);
  WriteBitcodeToFile(*Copy, Out);
  return Bytes;
}

} // namespace

Unit::Unit(Module &M) : M(M), Bitcode(bitcodeOf(M)) {
  string("");
  for (llvm::Function &F : M)
    if (!F.isDeclaration())
      number(F);
}

void Unit::number(llvm::Function &F) {
  FunctionOf[&F] = Functions.size();
  uint32_t Arguments = F.arg_size();
  Functions.push_back({string(F.getName()), static_cast<uint32_t>(Blocks.size()), Values, Arguments, 0});
  Values += Arguments;
  uint32_t First = Blocks.size();
  for (BasicBlock &BB : F)
    BlockOf[&BB] = First++;
  Type *I32 = Type::getInt32Ty(M.getContext());
  for (BasicBlock &BB : F) {
    Block B = {Values, static_cast<uint32_t>(Successors.size()), 0, 0};
    for (BasicBlock *Next : successors(&BB))
      Successors.push_back(BlockOf[Next]);
    for (Instruction &I : BB) {
      if (isNamed(I))
        I.setMetadata(NumberMark, MDNode::get(M.getContext(), ConstantAsMetadata::get(ConstantInt::get(I32, Values))));
      Values++;
      if (const DILocation *L = B.Line ? nullptr : I.getDebugLoc().get()) {
        B.Line = L->getLine();
        B.File = string(L->getFilename());
      }
    }
    Blocks.push_back(B);
  }
}

uint32_t Unit::string(StringRef S) {
  auto [It, New] = Strings.try_emplace(S, StringBytes.size());
  if (New) {
    StringBytes += S.str();
    StringBytes.push_back('\0');
  }
  return It->second;
}

std::optional<uint32_t> Unit::block(const BasicBlock *BB) const {
  auto It = BlockOf.find(BB);
  return It == BlockOf.end() ? std::nullopt : std::optional(It->second);
}

std::optional<uint32_t> Unit::value(const Instruction &I) {
  MDNode *Mark = I.getMetadata(NumberMark);
  if (!Mark)
    return std::nullopt;
  return mdconst::extract<ConstantInt>(Mark->getOperand(0))->getZExtValue();
}

std::optional<uint32_t> Unit::arguments(const llvm::Function *F) const {
  auto It = FunctionOf.find(F);
  return It == FunctionOf.end() ? std::nullopt : std::optional(Functions[It->second].FirstValue);
}

void Unit::replaces(Instruction &New, const Instruction &Old) {
  if (MDNode *Mark = Old.getMetadata(NumberMark))
    New.setMetadata(NumberMark, Mark);
}

void Unit::setTraced(const llvm::Function *F) {
  if (auto It = FunctionOf.find(F); It != FunctionOf.end())
    Functions[It->second].IsTraced = 1;
}

void Unit::setPlace(const Instruction &I, const Constant *Site, uint32_t Ordinal) {
  if (std::optional<uint32_t> Number = value(I))
    Places.push_back({*Number, SiteTable::unitOf(Site, M.getDataLayout()), Ordinal});
}

void Unit::emit(SiteTable &Sites) {
  for (llvm::Function &F : M)
    for (Instruction &I : instructions(F))
      I.setMetadata(NumberMark, nullptr);
  LLVMContext &C = M.getContext();
  uint32_t Name = string(M.getSourceFileName());
  uint64_t Hash = hashOf(Bitcode);
  uint64_t Whole = Bitcode.size();
  SmallVector<uint8_t, 0> Packed;
  bool IsPacked = compression::zlib::isAvailable();
  if (IsPacked) {
    compression::zlib::compress(arrayRefFromStringRef(Bitcode), Packed);
    Bitcode.assign(Packed.begin(), Packed.end());
  }
  std::string Table;
  for (const Function &F : Functions)
    for (uint32_t Word : {F.Name, F.FirstBlock, F.FirstValue, F.Arguments, F.IsTraced})
      put(Table, Word, 4);
  for (const Block &B : Blocks)
    for (uint32_t Word : {B.FirstValue, B.FirstSuccessor, B.File, B.Line})
      put(Table, Word, 4);
  for (uint32_t Next : Successors)
    put(Table, Next, 4);
  for (const Place &P : Places)
    for (uint32_t Word : {P.Value, P.Site, P.Ordinal})
      put(Table, Word, 4);
  Table += StringBytes;
  Table += Bitcode;
  uint64_t Total = alignTo(abi::UnitHeaderBytes + Table.size(), 16);

  // The header but for its first field, which says where the unit's site table is.
  std::string Head;
  put(Head, abi::UnitVersion, 4);
  put(Head, IsPacked ? abi::UnitPacked : 0, 4);
  put(Head, Total, 8);
  put(Head, Hash, 8);
  put(Head, Bitcode.size(), 8);
  put(Head, Whole, 8);
  for (size_t Word : {size_t(Name), Functions.size(), Blocks.size(), Successors.size(), Places.size(), StringBytes.size(), size_t(Values), size_t(0)})
    put(Head, Word, 4);
  Table.resize(Total - abi::UnitHeaderBytes, '\0');

  Type *I64 = Type::getInt64Ty(C);
  Constant *Magic = ConstantDataArray::getString(C, abi::UnitMagic, /*AddNull=*/false);
  Constant *Rest = ConstantDataArray::getString(C, Head + Table, /*AddNull=*/false);
  StructType *T = StructType::get(C, {Magic->getType(), I64, Rest->getType()}, /*isPacked=*/true);
  auto *G = new GlobalVariable(M, T, true, GlobalValue::PrivateLinkage, nullptr, "refrain.unit");
  // How far the table is from here, which the linker knows and the loader does not change.
  Constant *Distance = ConstantExpr::getSub(ConstantExpr::getPtrToInt(Sites.table(), I64), ConstantExpr::getPtrToInt(G, I64));
  G->setInitializer(ConstantStruct::get(T, {Magic, Distance, Rest}));
  G->setSection(abi::UnitSection);
  G->setAlignment(Align(16));
  appendToUsed(M, {G});
}

} // namespace refrain
