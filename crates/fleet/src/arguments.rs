//! The command line of `refrain fleet`.
use clap::Args;
use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  refrain fleet serve --store DIR --token-file F                    the server, with a page at http://127.0.0.1:7070/
  refrain fleet add-build ./bank --to URL --token-file F            a program that this server may run
  refrain record --method coop --share 25% -- ./bank                on each client: a part of what happens
  refrain fleet upload bank-3 --to URL --token-file F               what was recorded, without inputs
  refrain fleet upload --with-inputs bank-3                         the same with arguments, environment and what was read
  refrain fleet bugs                                                failures, and how many logs there are of each
  refrain fleet merge 80f4 -o merged && refrain replay merged       a run that fails so again, put together from many logs
  refrain fleet fetch 80f4                                          the same, tried on this machine, with inputs that stay here

REFRAIN_FLEET_URL and REFRAIN_FLEET_TOKEN_FILE stand for --to and --token-file.";

/// Many clients record a part each of a failure; a server puts together a run that fails the same way
#[derive(Debug, Parser)]
#[command(name = "refrain fleet", bin_name = "refrain fleet", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(ServeArguments),
    AddBuild(AddBuildArguments),
    Upload(UploadArguments),
    Show(ShowArguments),
    Bugs(BugsArguments),
    Logs(LogsArguments),
    Merge(MergeArguments),
    Fetch(FetchArguments),
    Try(TryArguments),
    #[command(name = crate::trying::COMMAND, hide = true)]
    Attempt {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// The server that a command speaks to
#[derive(Clone, Debug, Args)]
pub struct ServerArguments {
    /// The server, such as http://127.0.0.1:7070
    #[arg(long, value_name = "URL", env = "REFRAIN_FLEET_URL")]
    pub to: String,
    /// A file with the token that the server knows
    #[arg(long, value_name = "FILE", env = "REFRAIN_FLEET_TOKEN_FILE")]
    pub token_file: PathBuf,
}

/// Be the server: receive logs, answer questions about them, and have merged runs tried
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Where logs and programs are kept; created if it is not there
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    pub listen: SocketAddr,
    /// A file with a token a line, of at least 16 characters, that only its owner can read
    #[arg(long, value_name = "FILE", env = "REFRAIN_FLEET_TOKEN_FILE")]
    pub token_file: PathBuf,
    /// A certificate (PEM), for TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Listen where other machines reach it although there is no TLS
    #[arg(long)]
    pub allow_plain_remote: bool,
    /// How many attempts are made at a time; otherwise as many as there are processors
    #[arg(long, value_name = "N")]
    pub attempts_at_a_time: Option<usize>,
    /// How long an attempt may run, in seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub attempt_timeout: u64,
}

/// Tell the server of a program that it may run
#[derive(Debug, Args)]
pub struct AddBuildArguments {
    /// The program, as its clients have it
    #[arg(value_name = "PROG")]
    pub program: PathBuf,
    #[command(flatten)]
    pub server: ServerArguments,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Send what was recorded, and what still waits to be sent
#[derive(Debug, Args)]
pub struct UploadArguments {
    /// Names or directories of runs; the latest run if there are none
    pub runs: Vec<OsString>,
    /// Only what waits from before
    #[arg(long, conflicts_with = "runs")]
    pub queued: bool,
    /// Send arguments, environment, standard input and the files that were read as well, so that the server can try by itself
    #[arg(long)]
    pub with_inputs: bool,
    #[command(flatten)]
    pub server: ServerArguments,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Print what would leave this machine
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// A run's name or directory; the latest run if absent
    pub run: Option<OsString>,
    /// With the inputs that --with-inputs sends
    #[arg(long)]
    pub with_inputs: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// List the failures that were reported
#[derive(Debug, Args)]
pub struct BugsArguments {
    #[command(flatten)]
    pub server: ServerArguments,
    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
}

/// List the logs of a failure
#[derive(Debug, Args)]
pub struct LogsArguments {
    /// A failure's id, as `refrain fleet bugs` lists them, or the beginning of it; the most frequent failure if absent
    pub bug: Option<String>,
    #[command(flatten)]
    pub server: ServerArguments,
    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
}

/// By what logs count as similar
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MetricArgument {
    /// By how many elements they agree and differ in
    Psim,
    /// The same, where elements that tell runs apart count more
    Dsim,
    /// By nothing: a control
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ThresholdArgument {
    /// The paper's numbers
    Literal,
    /// In proportion to how much the logs record
    Scaled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArgument {
    Refrain,
    Paper,
    Random,
}

impl ModeArgument {
    pub fn name(self) -> &'static str {
        match self {
            ModeArgument::Refrain => "refrain",
            ModeArgument::Paper => "paper",
            ModeArgument::Random => "random",
        }
    }
}

impl MetricArgument {
    pub fn name(self) -> &'static str {
        match self {
            MetricArgument::Psim => "psim",
            MetricArgument::Dsim => "dsim",
            MetricArgument::None => "none",
        }
    }
}

impl ThresholdArgument {
    pub fn name(self) -> &'static str {
        match self {
            ThresholdArgument::Literal => "literal",
            ThresholdArgument::Scaled => "scaled",
        }
    }
}

/// How logs are put together
#[derive(Clone, Debug, Args)]
pub struct MergingArguments {
    /// By what logs count as similar
    #[arg(long, value_enum, default_value = "dsim")]
    pub metric: MetricArgument,
    /// How similar they have to be
    #[arg(long, value_enum, default_value = "scaled")]
    pub threshold: ThresholdArgument,
    /// Which merged logs are tried: ours, the paper's, or vectors drawn at random (a control)
    #[arg(long, value_enum, default_value = "refrain")]
    pub mode: ModeArgument,
    /// What chance begins with, where it decides
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// A log to begin with, whatever its relevance: its hash, as `refrain fleet logs` lists them, or the beginning of that
    #[arg(long, value_name = "LOG")]
    pub base: Option<String>,
    /// Merge logs of runs with other inputs, too
    #[arg(long)]
    pub across_inputs: bool,
}

/// Have the server put logs of a failure together until a run fails the same way
#[derive(Debug, Args)]
pub struct MergeArguments {
    /// A failure's id, as `refrain fleet bugs` lists them, or the beginning of it; the most frequent failure if absent
    pub bug: Option<String>,
    #[command(flatten)]
    pub merging: MergingArguments,
    /// At most so many attempts
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub budget: u32,
    /// Where the run goes, which must not exist; otherwise among the others
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArguments,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Try what the server puts together on this machine, which has the inputs; only verdicts leave it
#[derive(Debug, Args)]
pub struct FetchArguments {
    /// A failure's id, as `refrain fleet bugs` lists them, or the beginning of it; the most frequent failure if absent
    pub bug: Option<String>,
    /// At most so many attempts
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub attempts: u32,
    #[command(flatten)]
    pub merging: MergingArguments,
    /// The run whose inputs are used; otherwise one of this failure is looked for
    #[arg(long, value_name = "RUN")]
    pub run: Option<OsString>,
    /// How long an attempt may run, in seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub attempt_timeout: u64,
    /// Where the run goes, which must not exist; otherwise among the others
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArguments,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Keep the program to what one run has recorded, on this machine, and count how often it fails the same way
#[derive(Debug, Args)]
pub struct TryArguments {
    /// A run's name or directory; the latest run if absent
    pub run: Option<OsString>,
    /// How often
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub attempts: u64,
    /// An attempt in which all threads wait for each other is over; otherwise a vector is let go
    #[arg(long)]
    pub strict: bool,
    /// How long an attempt may run, in seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub attempt_timeout: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
