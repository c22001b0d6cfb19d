// How what is observed is observed: which check covers it.
#include "why.h"

using namespace llvm;

namespace refrain {

namespace {

std::string others(size_t Accesses) { return std::to_string(Accesses) + (Accesses == 1 ? " access" : " accesses"); }

} // namespace

void Why::inLoop(const Access &A, size_t Ranges, uint64_t IterationsMin) {
  if (Answer *Known = about(*A.I))
    Known->Loop = "part of a loop's range check: before the loop, one check of " + std::to_string(Ranges) +
                  (Ranges == 1 ? " range" : " ranges") + ", if it runs " + std::to_string(IterationsMin) +
                  " times or more and the thread may use all of that memory as it is";
}

void Why::group(const std::vector<Access> &Group, bool IsCalled, bool InPlace) {
  const Access &First = Group.front();
  std::string Where = Told.place(*First.I);
  for (const Access &A : Group) {
    Answer *Known = about(*A.I);
    if (!Known)
      continue;
    std::string How;
    if (A.Bytes > abi::ChunkBytes)
      How = "larger than a chunk of " + std::to_string(abi::ChunkBytes) + " bytes: always done by the runtime";
    else if (IsCalled)
      How = "calls its check, in code that is not done often (REFRAIN_OUTLINE)";
    else if (Group.size() == 1)
      How = A.Volatile ? "has a check of its own, because it is volatile" : "has a check of its own";
    else if (&A == &First)
      How = "has the check that covers " + others(Group.size());
    else
      How = "covered by the check at " + Where + ", with " + others(Group.size() - 1) + " before or after it";
    if (InPlace)
      How += ", in a function that cannot be copied and asks at each check whether memory is observed";
    how(*Known, How);
  }
}

void Why::part(const std::vector<Access> &Group) {
  for (const Access &A : Group)
    if (Answer *Known = about(*A.I))
      Known->Part = "in recordings of a part (--coop), done by the runtime if " +
                    (Known->Element.empty() ? std::string("memory without a name") : "`" + Known->Element + "`") + " is chosen";
}

void Why::assembly(const CallBase &Call, AssemblyAs How) {
  Answer *Known = about(Call);
  if (!Known)
    return;
  switch (How) {
  case AssemblyAs::Nothing:
    return;
  case AssemblyAs::Event:
    observed(*Known, "uses one place that others may use");
    how(*Known, "the runtime executes it as one atomic event of that place, at every scope");
    return;
  case AssemblyAs::Copies:
    if (!Options.Memory)
      return notObserved(*Known, Rule::SyncOnly, "the module is compiled for scope sync (REFRAIN_BUILD_SCOPE)");
    observed(*Known, "computes from and into its operands, which others may use");
    how(*Known, "works on copies, which are made by observed accesses around it");
    return;
  case AssemblyAs::Unobserved:
    return notObserved(*Known, Rule::Assembly, "it cannot be said which memory the statement uses, or how (docs/limits.md); `refrain info` lists it");
  }
}

} // namespace refrain
