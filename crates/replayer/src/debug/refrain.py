"""What `refrain replay --gdb` adds to gdb: stops at the failure, at the end and at a divergence, and `refrain-where`.

It reads the control memory through the descriptor that gdb passes on to the program, so it also works when the program
has ended. Nothing here writes to the program or calls a function in it: either would change the replay.
"""
import json
import os
import struct
import subprocess

import gdb

SESSION = os.environ["REFRAIN_GDB_SESSION"]
with open(os.path.join(SESSION, "about.json"), encoding="utf-8") as file:
    ABOUT = json.load(file)
LAYOUT = ABOUT["layout"]
FAILURE = ABOUT["failure"]
RUNTIME = "librefrain_runtime.so"
# Values of runtime_abi::thread_state.
UNUSED, RUNNING, EXITED, STOPPED, WAITING, BLOCKED = range(6)
# SIGTRAP is gdb's own.
FATAL = ["SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"]
# By it the kernel sends the runtime calls of a program that it hosts.
CALLS_SENT = "SIGSYS"


def say(text):
    gdb.write("refrain: " + text + "\n")


class Slot:
    """One thread's part of the control memory."""

    def __init__(self, index, data):
        def number(name, form):
            return struct.unpack_from(form, data, LAYOUT[name])[0]

        self.index = index
        self.count = number("count", "<Q")
        self.state = number("state", "<I")
        self.wait_thread = number("wait_thread", "<I")
        self.wait_count = number("wait_count", "<Q")
        self.os_thread = number("os_thread", "<I")
        self.stopped_at = number("stopped_at", "<I")
        self.stopped_object = number("stopped_object", "<Q")


def slots():
    descriptor, size = LAYOUT["descriptor"], LAYOUT["slot_bytes"]
    (threads,) = struct.unpack("<I", os.pread(descriptor, 4, LAYOUT["threads"]))
    data = os.pread(descriptor, threads * size, LAYOUT["slots"])
    return [Slot(i, data[i * size : (i + 1) * size]) for i in range(len(data) // size)]


def slot_of(thread):
    """The slot of a thread of gdb's."""
    return next((s for s in slots() if s.state != UNUSED and s.os_thread == thread.ptid[1]), None)


def is_runtime(frame):
    return (gdb.solib_name(frame.pc()) or "").endswith(RUNTIME)


def is_own(frame):
    """Is it the user's source, and not that of a library of the system's?"""
    symtab = frame.find_sal().symtab
    library = gdb.solib_name(frame.pc()) or ""
    if symtab is None or is_runtime(frame):
        return False
    # Rust's own library names its sources like this, wherever it was built; other crates are in the user's registry.
    is_foreign = symtab.fullname().startswith(("/usr/", "/rustc/")) or "/registry/src/" in symtab.fullname()
    return not is_foreign and not library.startswith(("/lib", "/usr/"))


def user_frame():
    """The innermost frame of the selected thread that shows the user's source, or at least some source."""
    frame, found = gdb.newest_frame(), None
    # A damaged stack may go on for ever.
    for _ in range(200):
        if frame is None:
            break
        symtab = frame.find_sal().symtab
        if symtab is not None and not is_runtime(frame):
            if is_own(frame):
                return frame
            found = found or frame
        try:
            frame = frame.older()
        except gdb.error:
            break
    return found


def place(frame):
    if frame is None:
        return ""
    sal = frame.find_sal()
    return " at {}:{} in {}".format(os.path.basename(sal.symtab.filename), sal.line, frame.name() or "?")


def show_user_frame():
    frame = user_frame()
    if frame is not None:
        frame.select()
        gdb.execute("frame")


def in_thread(thread, action):
    """Does `action` while `thread` is selected."""
    selected, frame = gdb.selected_thread(), None
    if selected is not None and selected.is_valid():
        try:
            frame = gdb.selected_frame()
        except gdb.error:
            pass
    thread.switch()
    try:
        return action()
    finally:
        if selected is not None and selected.is_valid():
            selected.switch()
            if frame is not None and frame.is_valid():
                frame.select()


def name_threads():
    for thread in gdb.selected_inferior().threads():
        slot = slot_of(thread)
        if slot is not None and thread.name != "T%d" % slot.index:
            thread.name = "T%d" % slot.index


def symbol(address, size=1):
    """` (counter)` for the address of a variable; ` (head, tail)` if there are several in so many bytes."""
    names = []
    for offset in range(0, size, 4):
        text = gdb.execute("info symbol %#x" % (address + offset), to_string=True)
        name = text.split(" in section")[0].split(" + ")[0].strip()
        if not text.startswith("No symbol") and name not in names:
            names.append(name)
    return " (%s)" % ", ".join(names) if names else ""


def value_at(address):
    """The eight bytes of a cell, as they are now."""
    try:
        data = gdb.selected_inferior().read_memory(address, 8)
    except gdb.error:
        return ""
    return "; it holds %#x now" % struct.unpack("<Q", bytes(data))[0]


def holder(address):
    """The thread that holds the mutex at this address; libc keeps its number after lock and count."""
    try:
        data = gdb.selected_inferior().read_memory(address + 8, 4)
    except gdb.error:
        return ""
    (owner,) = struct.unpack("<I", bytes(data))
    held = next((s for s in slots() if owner != 0 and s.os_thread == owner), None)
    return "" if held is None else ", held by T%d" % held.index


def stopped_at(slot):
    """What a thread that stands at the end of its log was about to do."""
    kind, op = slot.stopped_at & 0xFF, slot.stopped_at >> 8 & 0xFF
    words = ABOUT["operations"].get(str(op)) if op else ABOUT["kinds"].get(str(kind))
    if kind == 0 or words is None:
        return ""
    # A plain access: the schedule does not say of what.
    if op == 0 and slot.stopped_object == 0:
        words = {4: "an access to memory"}.get(kind, words)
    text = ", before: " + words
    if slot.stopped_object and not words.startswith("join"):
        text += " %#x%s" % (slot.stopped_object, symbol(slot.stopped_object))
        if words.startswith("mutex"):
            text += holder(slot.stopped_object)
    return text


def where():
    if gdb.selected_inferior().pid == 0:
        say("the program does not run; this is where its threads were at the end of the last replay:")
    threads = {t.ptid[1]: t for t in gdb.selected_inferior().threads()}
    for slot in slots():
        events = ABOUT["events"]
        recorded = events[slot.index] if slot.index < len(events) else 0
        done = "%d of %d events" % (slot.count, recorded)
        thread = threads.get(slot.os_thread) if slot.state not in (UNUSED, EXITED) else None
        at = in_thread(thread, lambda: place(user_frame())) if thread is not None else ""
        what = {
            UNUSED: "not started",
            RUNNING: "runs" if thread is not None else "ran",
            EXITED: "ended",
            STOPPED: "at the end of its log" + stopped_at(slot),
            WAITING: "waits for T%d to complete %d events" % (slot.wait_thread, slot.wait_count),
            BLOCKED: "blocked",
        }.get(slot.state, "in an unknown state")
        mark = "*" if thread is not None and thread == gdb.selected_thread() else " "
        number = "thread %d" % thread.num if thread is not None else ""
        gdb.write("%s T%-3d %-10s %s, %s%s\n" % (mark, slot.index, number, done, what, at))


class Where(gdb.Command):
    """Where each thread of the replay is: events completed, what it waits for, and its line of source.

A thread's Tn is its number in `refrain dump`; thread n is gdb's."""

    def __init__(self):
        super().__init__("refrain-where", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        where()


class Thread(gdb.Command):
    """Select a thread by its number in the recording, and its innermost frame of your own code: refrain-thread [N]

Without N, the frame of the selected thread."""

    def __init__(self):
        super().__init__("refrain-thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if argument:
            index = int(argument.lstrip("T"), 10) if argument.lstrip("T").isdigit() else None
            threads = gdb.selected_inferior().threads()
            found = [t for t in threads if (slot_of(t) or Nobody).index == index]
            if index is None or not found:
                raise gdb.GdbError("there is no thread %s now; refrain-where lists them" % argument)
            found[0].switch()
        elif gdb.selected_thread() is None:
            raise gdb.GdbError("the program does not run; type run")
        show_user_frame()


class Nobody:
    """The slot of a thread that has none."""

    index = -1


class OwnFrames:
    """Leaves the runtime's frames out of backtraces; `backtrace -no-filters` shows them."""

    def __init__(self):
        self.name, self.enabled, self.priority = "refrain", True, 100
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        return (frame for frame in frames if not is_runtime(frame.inferior_frame()))


class Dump(gdb.Command):
    """What the recorded threads logged, around where the selected thread is: refrain-dump [ARGUMENTS of `refrain dump`]"""

    def __init__(self):
        super().__init__("refrain-dump", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        arguments = gdb.string_to_argv(argument)
        thread = gdb.selected_thread()
        slot = slot_of(thread) if thread is not None else None
        if not arguments and slot is not None:
            arguments = ["--thread", str(slot.index), "--around", str(slot.count)]
        command = [ABOUT["tool"], "dump", ABOUT["run_directory"]] + arguments
        gdb.write(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout.decode(errors="replace"))


class Place(gdb.Breakpoint):
    """A function of the runtime's, on which gdb stops without a word of its own."""

    def __init__(self, function, announce):
        super().__init__(function, internal=True)
        self.silent = True
        self.announce = announce


class Panic(gdb.Breakpoint):
    """Where a Rust program begins to unwind. Its message has been printed."""

    def __init__(self, function):
        super().__init__(function, internal=True)
        self.silent = True

    def announce(self):
        Exit.is_wanted = False
        slot = slot_of(gdb.selected_thread())
        say("T%d panics, after %d events (recorded outcome: %s). 'continue' goes on to the next panic or the end." % (
            slot.index, slot.count, ABOUT["outcome"]))
        show_user_frame()


class Write(gdb.Breakpoint):
    """The runtime replaces code in which gdb has breakpoints: gdb must know what is below them from now on."""

    def __init__(self):
        super().__init__("__refrain_write_code", internal=True)
        self.silent = True

    def stop(self):
        frame, inferior = gdb.newest_frame(), gdb.selected_inferior()
        to, code, size = (int(frame.read_register(name)) for name in ("rdi", "rsi", "rdx"))
        inferior.write_memory(to, inferior.read_memory(code, size))
        return False


class Exit(gdb.Breakpoint):
    """libc's `exit`, called by the thread that failed by it. Its last events are then those of destructors."""

    is_wanted = True
    # Events completed when it was called.
    count = None

    def __init__(self):
        super().__init__("exit", internal=True)
        self.silent = True

    def stop(self):
        slot = slot_of(gdb.selected_thread())
        return Exit.is_wanted and slot is not None and slot.index == FAILURE["thread"]

    def announce(self):
        Exit.count = slot_of(gdb.selected_thread()).count


class Dying(gdb.Breakpoint):
    """The runtime's handler of fatal signals has let the others finish: the signal comes again, and kills.

    If the failure was asked for, gdb stops here, because now all threads are where they were. If not, it has stopped
    at the signal already."""

    def __init__(self):
        super().__init__("__refrain_dying", internal=True)
        self.silent = True

    def stop(self):
        for signal in FATAL:
            handle(signal, is_shown=False)
        return is_fault_wanted()

    def announce(self):
        slot = slot_of(gdb.selected_thread())
        say("T%d fails here by %s, after %d events; the access has not happened." % (
            slot.index, ABOUT["outcome"], slot.count))
        tell_account()
        show_user_frame()


def is_fault_wanted():
    return FAILURE is not None and FAILURE["how"] == "fault"


def handle(signal, is_shown):
    gdb.execute("handle %s %s pass" % (signal, "stop print" if is_shown else "nostop noprint"), to_string=True)


def tell_account():
    """The last steps in which the selected thread got something from others."""
    count = slot_of(gdb.selected_thread()).count
    lines = [line for line in FAILURE["account"] if line["event"] <= count][-3:]
    if lines:
        say("what it had from other threads last:")
    for line in lines:
        size, value = (8, value_at(line["object"])) if line["is_cell"] else (1, "")
        gdb.write("  " + line["text"] + symbol(line["object"], size) + value + "\n")


def at_failure():
    Exit.is_wanted = False
    slot = slot_of(gdb.selected_thread())
    say("T%d is before its event %d, the last before the failure (recorded: %s)." % (
        slot.index, slot.count, ABOUT["outcome"]))
    tell_account()
    show_user_frame()


def at_end():
    say("all threads stand where the recording ended (recorded: %s):" % ABOUT["outcome"])
    # Any thread may have noticed. The first that does not merely wait for the end of another is the most telling.
    threads = {t.ptid[1]: t for t in gdb.selected_inferior().threads()}
    stopped = [s for s in slots() if s.state == STOPPED and s.os_thread in threads]
    telling = [s for s in stopped if not stopped_at(s).startswith(", before: join")]
    for slot in (telling or stopped)[:1]:
        threads[slot.os_thread].switch()
    where()
    show_user_frame()


def diverged():
    say("the replay diverged here; the report is on standard error.")
    show_user_frame()


def on_stop(event):
    name_threads()
    if isinstance(event, gdb.BreakpointEvent):
        for breakpoint in event.breakpoints:
            if hasattr(breakpoint, "announce"):
                return breakpoint.announce()
    frame = gdb.newest_frame()
    # A watched variable changes inside the runtime; abort is far from whoever called it.
    if is_runtime(frame) or (isinstance(event, gdb.SignalEvent) and event.stop_signal in FATAL and not is_own(frame)):
        show_user_frame()


def on_continue(event):
    # They tell of the replay before this one.
    if gdb.selected_inferior().pid != on_continue.pid:
        on_continue.pid = gdb.selected_inferior().pid
        Exit.is_wanted = True
        for name in ("_exitcode", "_exitsignal"):
            gdb.set_convenience_variable(name, None)
        handle(CALLS_SENT, is_shown=False)
        for signal in FATAL:
            handle(signal, is_shown=not (is_fault_wanted() and signal == ABOUT["outcome"]))


on_continue.pid = 0


def on_new_objfile(event):
    """Sets our breakpoints once there is something to set them on; gdb keeps them for the replays after this one."""
    name = os.path.basename(event.new_objfile.filename or "")
    if name in on_new_objfile.seen:
        return
    on_new_objfile.seen.add(name)
    if name == RUNTIME:
        Place("__refrain_at_failure", at_failure)
        Place("__refrain_at_end", at_end)
        Place("__refrain_diverged", diverged)
        Dying()
        Write()
    if name.startswith("libc.so") and FAILURE and FAILURE["how"] == "exit":
        Exit()


on_new_objfile.seen = set()


def stop_at_panics():
    """Of a Rust program whose failure is asked for. The function is called the same in every version of the library."""
    found = gdb.execute("info functions -q -n rust_panic$", to_string=True)
    for line in found.splitlines():
        name = line.strip().rstrip(";").split("(")[0].split(" ")[-1]
        if name.split("::")[-1] == "rust_panic":
            Panic(name)
            return


def on_exited(event):
    code, signal = gdb.convenience_variable("_exitcode"), gdb.convenience_variable("_exitsignal")
    # Neither: gdb killed it.
    if signal is not None:
        ended = "signaled %d" % int(signal)
    elif code is not None:
        ended = "exited %d" % int(code)
    else:
        return
    with open(os.path.join(SESSION, "ended"), "w", encoding="utf-8") as out:
        out.write(ended + "\n")


def goto_failure():
    gdb.execute("run")
    if Exit.count:
        # Now it is known which event was the last before `exit`. It comes again, so the next replay can stop there.
        path = os.path.join(SESSION, "launch.json")
        with open(path, encoding="utf-8") as launch:
            content = json.load(launch)
        content["failure"]["event"] = Exit.count - 1
        with open(path, "w", encoding="utf-8") as launch:
            json.dump(content, launch)
        Exit.count = None
        say("T%d called exit, after which only destructors ran; once more, up to there." % FAILURE["thread"])
        gdb.execute("run")


def configure():
    # Stepping stays in the program's own code. Calling functions of the program would be events nobody recorded.
    for command in (
        "skip -gfi */runtime/src/*",
        "skip -gfi */runtime/src/*/*",
        "set may-call-functions off",
    ):
        try:
            gdb.execute(command, to_string=True)
        except gdb.error as error:
            say("this gdb does not know '%s': %s" % (command, error))


def greet():
    say("%s, recorded: %s, %d threads, %d events." % (
        ABOUT["run"], ABOUT["outcome"], len(ABOUT["events"]), sum(ABOUT["events"])))
    say("'run' replays it, as often as you like. More commands: refrain-where, refrain-thread, refrain-dump.")


configure()
Where()
Thread()
OwnFrames()
Dump()
gdb.events.new_objfile.connect(on_new_objfile)
gdb.events.stop.connect(on_stop)
gdb.events.cont.connect(on_continue)
gdb.events.exited.connect(on_exited)
greet()
if FAILURE:
    stop_at_panics()
    goto_failure()
