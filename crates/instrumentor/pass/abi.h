// The C++ side of crates/runtime-abi: what compiled programs know about the runtime.
//
// A unit test of the crate reads this file and compares every constant with the Rust definitions, so a change on one
// side alone does not pass. Keep one constant per line.
#pragma once

#include <cstdint>

namespace refrain::abi {

constexpr uint32_t Version = 21;
// In the number of bytes that an instruction has yielded: they are random.
constexpr uint64_t RandomInstruction = 1ull << 32;

// The chunk word of address p stands at ChunkShadow + (p / ChunkBytes) * 8.
constexpr uint64_t ChunkShadow = 0x100000000000;
constexpr uint64_t ChunkBytes = 64;

// Byte offsets in ThreadSlot.
constexpr unsigned SlotCount = 0;
constexpr unsigned SlotGate = 8;
constexpr unsigned SlotExclusive = 16;
constexpr unsigned SlotSeen = 24;
constexpr unsigned SlotWindow = 32;
constexpr unsigned SlotSite = 40;

// Byte offsets in Counting, the thread-local variable __refrain_counting.
constexpr unsigned CountingTransfers = 0;
constexpr unsigned CountingLimit = 8;
constexpr unsigned CountingSlow = 16;
constexpr unsigned CountingOrdinal = 20;
// What CountingSlow is where the slow version tells everything it does (traced.h).
constexpr uint32_t SlowAndTold = 2;
// Which of the instructions of a function that have one site it is, above the number of the runtime's accesses for it.
constexpr unsigned OrdinalShift = 20;
constexpr uint32_t OrdinalMax = 0xffe;

// The site table: a blob per module in one section, concatenated by the linker.
constexpr const char *SiteSection = "refrain_sites";
constexpr const char *SiteMagic = "RFRNSITE";
constexpr uint32_t SiteVersion = 2;
constexpr uint32_t SiteHeaderBytes = 32;
constexpr uint32_t SiteRecordBytes = 32;
constexpr uint32_t SpeRecordBytes = 20;
// Of the flags of a table: plain accesses of the module are not observed, whatever is asked for.
constexpr uint32_t SiteTableSyncOnly = 1;
// The functions of the module can count control transfers.
constexpr uint32_t SiteTableCounted = 2;
// The functions of the module have versions for partial recordings (parts.h).
constexpr uint32_t SiteTableParts = 4;
// Of the flags of a site: what is read there may be bytes that nobody has set.
constexpr uint32_t SiteMayBeUndefined = 1;

// The units (units.h): one after the other in a section of their own.
constexpr const char *UnitSection = "refrain_units";
constexpr const char *UnitMagic = "RFRNUNIT";
constexpr uint32_t UnitVersion = 1;
constexpr uint32_t UnitHeaderBytes = 88;
// Of a unit's flags: its bitcode is compressed by zlib.
constexpr uint32_t UnitPacked = 1;
// A unit has the number that a site would have so many bytes behind the beginning of its site table, which is in its header.
constexpr uint32_t UnitNumberOffset = 16;

// The words of functions for partial recordings (parts.h), and how many bits there are for elements. The one above: everything is observed.
constexpr const char *PartSection = "refrain_parts";
constexpr uint32_t PartBits = 63;

enum class SiteKind : uint8_t {
  Other = 0,
  Load = 1,
  Store = 2,
  Atomic = 3,
  Range = 4,
  SyncCall = 5,
  Loop = 6,
  Allocation = 7,
  Assembly = 8
};

// What a statement of inline assembly does to its place, as __refrain_assembly is told.
constexpr uint32_t AssemblyReads = 0;
constexpr uint32_t AssemblyWrites = 1;
constexpr uint32_t AssemblyBoth = 2;

// Shared program elements: 0 means that the instruction alone does not say what it accesses, 1 is memory without a name.
constexpr uint32_t SpeUnnamed = 1;
constexpr uint32_t SpeFirst = 2;
enum class SpeKind : uint8_t { Other = 0, Global = 1, Field = 2, Array = 3, Lock = 4 };

// What the driver writes into the debug information of a module that is to keep lines only: types are there for the
// names of shared program elements, and are taken away again.
constexpr const char *BorrowedTypes = "refrain-lines-only";

// Named metadata that says "this module has been through the pass".
constexpr const char *ModuleMark = "refrain.instrumented";
// The instrumented clone of f is f.refrain.
constexpr const char *CloneSuffix = ".refrain";
// And f.coop observes a part of it (parts.h).
constexpr const char *CoopSuffix = ".coop";

} // namespace refrain::abi
