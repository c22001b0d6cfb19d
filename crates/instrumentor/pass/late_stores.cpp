#include "late_stores.h"
#include "units.h"
#include "accesses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;

namespace refrain {

namespace {

// How far the way from a store to a load may be, over all branches.
constexpr unsigned InstructionsMax = 120;

// What an instruction means for a store that waits.
enum class Meaning {
  Nothing,
  // A plain load: if it is of the same memory, the store must be done.
  Reads,
  // An atomic load, before which the store may stay undone.
  Overtakes,
  // A store that has to come after it, and may wait with it.
  Follows,
  // Everything else: the store must be done.
  Ends
};

class Delays {
public:
  Delays(Function &F, Filters &Keep, const DataLayout &DL) : Keep(Keep), DL(DL) {
    for (Instruction &I : instructions(F))
      if (meaning(I) == Meaning::Follows && Walk(*this, I).reachesLoad())
        admit(I);
    while (!Pending.empty())
      Walk(*this, *Pending.pop_back_val()).note();
  }

  SetVector<Instruction *> Stores, Loads, Reads;
  // Before these, what waits is done.
  SetVector<Instruction *> Ends;

private:
  // The ways from one store to where it must be done.
  class Walk {
  public:
    Walk(Delays &D, Instruction &Store) : D(D) { from(*Store.getParent(), std::next(Store.getIterator())); }

    bool reachesLoad() const { return !Loads.empty(); }

    void note() {
      D.Loads.insert_range(Loads);
      D.Reads.insert_range(Reads);
      D.Ends.insert_range(Ends);
      for (Instruction *I : Follows)
        D.admit(*I);
    }

  private:
    void from(BasicBlock &Block, BasicBlock::iterator At) {
      for (; At != Block.end(); ++At) {
        Instruction &I = *At;
        if (I.isTerminator() && !isa<BranchInst, SwitchInst>(I))
          return end(I);
        if (++Steps > InstructionsMax)
          return end(I);
        switch (D.meaning(I)) {
        case Meaning::Nothing:
          break;
        case Meaning::Reads:
          Reads.push_back(&I);
          break;
        case Meaning::Follows:
          Follows.push_back(&I);
          break;
        case Meaning::Overtakes:
          Loads.push_back(&I);
          return;
        case Meaning::Ends:
          return end(I);
        }
      }
      for (BasicBlock *Next : successors(&Block)) {
        // Where ways meet, as at the head of a loop, others who come by are not to pay for more than the load.
        if (!Next->getSinglePredecessor() && !D.beginsWithLoad(*Next))
          end(*Block.getTerminator());
        else if (Seen.insert(Next).second)
          from(*Next, Next->getFirstNonPHIIt());
      }
    }

    void end(Instruction &I) {
      if (!isa<UnreachableInst>(I))
        Ends.push_back(&I);
    }

    Delays &D;
    unsigned Steps = 0;
    SmallPtrSet<BasicBlock *, 8> Seen;
    SmallVector<Instruction *, 4> Loads, Reads, Follows, Ends;
  };

  void admit(Instruction &I) {
    if (Stores.insert(&I))
      Pending.push_back(&I);
  }

  Meaning meaning(Instruction &I) {
    auto *L = dyn_cast<LoadInst>(&I);
    auto *S = dyn_cast<StoreInst>(&I);
    if (!L && !S)
      return endsStretch(I) ? Meaning::Ends : Meaning::Nothing;
    if (Keep.isPrivate(getLoadStorePointerOperand(&I)))
      return Meaning::Nothing;
    if (!I.isAtomic())
      return S || I.isVolatile() ? Meaning::Ends : Meaning::Reads;
    if (!integerFor(DL, getLoadStoreType(&I)) || getLoadStoreAddressSpace(&I))
      return Meaning::Ends;
    if (L)
      return Meaning::Overtakes;
    return S->getOrdering() == AtomicOrdering::SequentiallyConsistent ? Meaning::Ends : Meaning::Follows;
  }

  bool beginsWithLoad(BasicBlock &Block) {
    for (Instruction &I : Block)
      if (Meaning M = meaning(I); M != Meaning::Nothing)
        return M == Meaning::Overtakes;
    return false;
  }

  Filters &Keep;
  const DataLayout &DL;
  SmallVector<Instruction *, 8> Pending;
};

} // namespace

void delayStores(Function &F, Filters &Keep, Runtime &R, SiteTable &Sites) {
  Delays D(F, Keep, R.DL);
  auto Bytes = [&](Instruction *I) { return R.DL.getTypeStoreSize(getLoadStoreType(I)).getFixedValue(); };
  // How the runtime's functions take it: the bytes, and whether all code that uses the memory is instrumented.
  auto Extent = [&](Instruction *I) { return ConstantInt::get(R.I32, Bytes(I) | (Sites.isRust() ? 0x100 : 0)); };
  for (Instruction *I : D.Ends) {
    IRBuilder<> B(I);
    R.call(B, "__refrain_late_finish", R.Void, {});
  }
  for (Instruction *I : D.Reads) {
    IRBuilder<> B(I);
    Value *P = getLoadStorePointerOperand(I);
    R.call(B, "__refrain_late_read", R.Void, {P, R.number(Bytes(I))});
  }
  for (Instruction *I : D.Stores) {
    IRBuilder<> B(I);
    Value *V = cast<StoreInst>(I)->getValueOperand();
    V = B.CreateZExt(toInteger(B, V, integerFor(R.DL, V->getType())), R.I64);
    Constant *Site = Sites.site(*I, abi::SiteKind::Atomic, Bytes(I));
    R.call(B, "__refrain_late_store", R.Void, {getLoadStorePointerOperand(I), V, Extent(I), Site});
    I->eraseFromParent();
  }
  for (Instruction *I : D.Loads) {
    IRBuilder<> B(I);
    Constant *Site = Sites.site(*I, abi::SiteKind::Atomic, Bytes(I));
    Value *V = R.call(B, "__refrain_late_load", R.I64, {getLoadStorePointerOperand(I), Extent(I), Site});
    Unit::replaces(*cast<Instruction>(V), *I);
    IntegerType *Whole = integerFor(R.DL, I->getType());
    I->replaceAllUsesWith(fromInteger(B, B.CreateTrunc(V, Whole), I->getType()));
    I->eraseFromParent();
  }
}

} // namespace refrain
