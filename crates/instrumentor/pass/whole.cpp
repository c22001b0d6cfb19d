#include "whole.h"
#include "abi.h"
#include "options.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace refrain {

namespace {

// Of a function that is held: the attributes that it had, and does not have meanwhile.
constexpr const char *HeldAttribute = "refrain-held";
// No function has this name: it is what a linker says that does not run the pass.
constexpr const char *Missing = "__refrain_objects_of_flto_are_linked_with_refrain_cc_flto";

// Attributes that cannot stand beside optnone.
constexpr Attribute::AttrKind Apart[] = {Attribute::OptimizeForSize, Attribute::MinSize, Attribute::OptimizeForDebugging};

// The variables of a module's compilation that say what is made of it. All parts of a program have the same.
struct Setting {
  const char *Variable, *Option;
};
constexpr Setting Settings[] = {
    {"REFRAIN_BUILD_SCOPE", "REFRAIN_BUILD_SCOPE"}, {"REFRAIN_BUILD_DET", "--det"}, {"REFRAIN_BUILD_COOP", "--coop"}};
constexpr const char *FunctionsVariable = "REFRAIN_BUILD_FUNCTIONS";

StringRef valueOf(const char *Variable) {
  const char *Value = std::getenv(Variable);
  return Value ? Value : "";
}

// Nothing that comes after us in the pipeline changes a function with optnone; without it, loops would be vectorised here.
void hold(Function &F) {
  if (F.isDeclaration() || F.hasOptNone() || F.hasFnAttribute(Attribute::AlwaysInline))
    return;
  std::string Had;
  for (Attribute::AttrKind Kind : Apart)
    if (F.hasFnAttribute(Kind)) {
      Had += (Attribute::getNameFromAttrKind(Kind) + ",").str();
      F.removeFnAttr(Kind);
    }
  if (F.hasFnAttribute(Attribute::NoInline))
    Had += (Attribute::getNameFromAttrKind(Attribute::NoInline) + ",").str();
  F.addFnAttr(HeldAttribute, Had);
  F.addFnAttr(Attribute::NoInline);
  F.addFnAttr(Attribute::OptimizeNone);
}

void release(Function &F) {
  Attribute Held = F.getFnAttribute(HeldAttribute);
  if (!Held.isStringAttribute())
    return;
  SmallVector<StringRef, 4> Had;
  Held.getValueAsString().split(Had, ',', -1, /*KeepEmpty=*/false);
  F.removeFnAttr(HeldAttribute);
  F.removeFnAttr(Attribute::OptimizeNone);
  F.removeFnAttr(Attribute::NoInline);
  for (StringRef Name : Had)
    F.addFnAttr(Attribute::getAttrKindFromName(Name));
}

void refer(Module &M) {
  Type *Ptr = PointerType::get(M.getContext(), 0);
  auto *Nowhere = cast<Constant>(M.getOrInsertFunction(Missing, Type::getVoidTy(M.getContext())).getCallee());
  auto *G = new GlobalVariable(M, Ptr, /*isConstant=*/true, GlobalValue::InternalLinkage, Nowhere, "refrain.held");
  appendToCompilerUsed(M, {G});
}

void forgetReferences(Module &M) {
  Function *Nowhere = M.getFunction(Missing);
  if (!Nowhere)
    return;
  auto IsReference = [&](Constant *C) {
    auto *G = dyn_cast<GlobalVariable>(C->stripPointerCasts());
    return G && G->hasInitializer() && G->getInitializer() == Nowhere;
  };
  removeFromUsedLists(M, IsReference);
  for (GlobalVariable &G : make_early_inc_range(M.globals())) {
    G.removeDeadConstantUsers();
    if (IsReference(&G) && G.use_empty())
      G.eraseFromParent();
  }
  Nowhere->removeDeadConstantUsers();
  if (Nowhere->use_empty())
    Nowhere->eraseFromParent();
}

// The values of a held module, in the order of `keep`.
StringRef field(const MDNode &Entry, unsigned At) {
  auto *S = At < Entry.getNumOperands() ? dyn_cast_or_null<MDString>(Entry.getOperand(At).get()) : nullptr;
  return S ? S->getString() : "";
}

void keep(Module &M) {
  LLVMContext &C = M.getContext();
  SmallVector<Metadata *, 5> Fields = {MDString::get(C, M.getSourceFileName())};
  for (const Setting &S : Settings)
    Fields.push_back(MDString::get(C, valueOf(S.Variable)));
  Fields.push_back(MDString::get(C, valueOf(FunctionsVariable)));
  M.getOrInsertNamedMetadata(HeldMark)->addOperand(MDNode::get(C, Fields));
}

void refuse(Module &M, const Twine &Why) { M.getContext().emitError("refrain: " + Why); }

// What the modules were compiled for is what the whole is made for: it becomes what this process was told.
void takeOver(Module &M, const NamedMDNode &Held) {
  const MDNode &First = *Held.getOperand(0);
  for (auto [At, S] : enumerate(Settings)) {
    for (const MDNode *Entry : Held.operands())
      if (field(*Entry, At + 1) != field(First, At + 1))
        return refuse(M, field(First, 0) + " and " + field(*Entry, 0) + " were compiled with -flto and different values of " + S.Option +
                             "; compile all parts of the program with the same, or without -flto");
    setenv(S.Variable, field(First, At + 1).str().c_str(), 1);
  }
  SetVector<StringRef> Lines;
  for (const MDNode *Entry : Held.operands()) {
    SmallVector<StringRef, 16> Own;
    field(*Entry, std::size(Settings) + 1).split(Own, '\n', -1, /*KeepEmpty=*/false);
    Lines.insert(Own.begin(), Own.end());
  }
  setenv(FunctionsVariable, join(Lines, "\n").c_str(), 1);
}

} // namespace

PreservedAnalyses HoldPass::run(Module &M, ModuleAnalysisManager &) {
  if (M.getNamedMetadata(abi::ModuleMark))
    return PreservedAnalyses::all();
  // It may have been held before: bitcode can be compiled again.
  if (!M.getNamedMetadata(HeldMark))
    keep(M);
  if (!M.getFunction(Missing))
    refer(M);
  for (Function &F : M)
    hold(F);
  return PreservedAnalyses::none();
}

PreservedAnalyses ReleasePass::run(Module &M, ModuleAnalysisManager &) {
  NamedMDNode *Held = M.getNamedMetadata(HeldMark);
  if (!Held || Held->getNumOperands() == 0)
    return PreservedAnalyses::all();
  if (NamedMDNode *Done = M.getNamedMetadata(abi::ModuleMark)) {
    StringRef Name = Done->getNumOperands() ? field(*Done->getOperand(0), 0) : "";
    refuse(M, "bitcode of " + (Name.empty() ? Twine("a module") : Twine(Name)) +
                  " was instrumented when it was compiled, and cannot be merged with what was compiled with -flto; compile it with -flto as well, or to machine code");
  }
  takeOver(M, *Held);
  forgetReferences(M);
  for (Function &F : M)
    release(F);
  return PreservedAnalyses::none();
}

} // namespace refrain
