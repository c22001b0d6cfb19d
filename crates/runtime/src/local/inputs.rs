//! What system calls and signals have brought to one thread, or brought to it in the recording.
use crate::inputs::CallLabels;
use crate::inputs::InputReader;
use crate::inputs::InputWriter;
use crate::local::signals::CallUnderWay;
use crate::local::signals::Pending;
use crate::local::signals::SignalStack;
use crate::local::spinning::Spinning;
use core::cell::Cell;
use thread_cells::HandlerFlag;
use thread_cells::HandlerWord;
use thread_cells::OwnedCell;

/// In this order: what every system call needs comes first.
///
/// Handlers change `pending`, `spinning` and `request_timer` (a signal has come), `is_cancelled` (a request is passed on to libc) and `call_stack` (the call of
/// a handler of libc's); they look at `waits_cancellably`. Those are made for that. They append nothing, and take nothing from the log.
#[repr(C)]
pub struct InputState {
    /// Scope `inputs`: the end of its stack, as far as that is known.
    pub stack_top: Cell<usize>,
    /// The same, in a system call: the stack that the call was made on; 0: it was made otherwise.
    pub call_stack: HandlerWord,
    pub labels: OwnedCell<CallLabels>,
    /// Scope `inputs`, recording: the timer that makes a request for the thread's end come again, counted from 1; 0: there is none.
    pub request_timer: HandlerWord,
    /// Calls that were made and not logged: where between two events a signal came, at scope `inputs`.
    pub real_calls: Cell<u64>,
    /// The same without those of futexes, of which there are more or less as the thread meets others at locks.
    pub sure_calls: Cell<u64>,
    /// Recording: where what calls bring in is written.
    pub writer: InputWriter,
    /// Signals whose handlers have not run yet.
    pub pending: Pending,
    pub spinning: Spinning,
    /// Calls that change which signals are blocked: where between two events a signal came, at other scopes. How often a thread makes other
    /// calls there depends on how it meets others at locks.
    pub mask_changes: Cell<u64>,
    /// What is blocked during the call under way, if the call itself says so.
    pub call_mask: Cell<Option<u64>>,
    pub signal_stack: SignalStack,
    /// What the program was last told of the time-stamp counter.
    pub counter: Cell<u64>,
    /// The call under way, if it came by a trampoline and is none of a handler's caller.
    pub call: Cell<Option<CallUnderWay>>,
    /// Replay: what calls brought in.
    pub recorded: InputReader,
    /// Recording: in a wait of libc's at which it may be cancelled.
    pub waits_cancellably: HandlerFlag,
    /// Recording: on its way out because it was cancelled, or about to be: further requests change nothing.
    pub is_cancelled: HandlerFlag,
    /// Inside of an event of a stream, or of a descriptor: what stands for that; else 0.
    pub stream_object: Cell<u64>,
}

impl InputState {
    pub fn new(index: u32) -> InputState {
        InputState {
            stack_top: Cell::new(0),
            call_stack: HandlerWord::new(0),
            labels: OwnedCell::new(CallLabels::new()),
            request_timer: HandlerWord::new(0),
            real_calls: Cell::new(0),
            sure_calls: Cell::new(0),
            mask_changes: Cell::new(0),
            call_mask: Cell::new(None),
            writer: InputWriter::new(index),
            pending: Pending::new(),
            spinning: Spinning::new(),
            signal_stack: SignalStack::new(),
            counter: Cell::new(0),
            call: Cell::new(None),
            recorded: InputReader::new(),
            waits_cancellably: HandlerFlag::new(false),
            is_cancelled: HandlerFlag::new(false),
            stream_object: Cell::new(0),
        }
    }

    /// A forked child: its inputs are those of its own process from now on.
    pub fn begin_in_child(&self) {
        self.writer.begin_in_child();
        self.recorded.close();
        self.counter.set(0);
        self.pending.forget();
        self.spinning.forget();
    }
}
