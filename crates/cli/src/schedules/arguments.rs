//! The command line of `refrain schedules`.
use clap::Args;
use clap::Subcommand;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
A schedule is learned by the first `refrain run` of a program with certain arguments and a certain environment, and is kept in
$REFRAIN_DIR/schedules (or in the DIR of --cache) for the next ones. NAME is what `ls` prints, or the beginning of it.

Exit status: 0 done, 1 `check` found something wrong, 2 wrong usage, 3 the cache cannot be read.

Examples:
  refrain schedules ls                          what was learned, for which program and arguments
  refrain schedules info 3fd9                   everything that is known of one of them
  refrain schedules why -- ./prog 4 data        hit or miss, and which argument or variable is another one
  refrain schedules check                       is every byte the one that was written?
  refrain schedules rm 3fd9                     the next `refrain run` learns it again
  refrain schedules pack -o bank.schedules      all of them in one file
  refrain schedules unpack bank.schedules --cache ./schedules
                                                into another cache, on another machine perhaps";

/// List, describe, check, delete and move the schedules that `refrain run` has learned
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SchedulesArguments {
    #[command(subcommand)]
    pub command: SchedulesCommand,
    /// The cache is DIR instead of $REFRAIN_DIR/schedules
    #[arg(long, global = true, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum SchedulesCommand {
    /// List the schedules
    Ls,
    /// Say everything that is known of a schedule: for what it was learned, from what, and why it is sealed if it is
    Info {
        /// A name that `ls` prints, or the beginning of one
        name: OsString,
    },
    /// Say whether the next `refrain run` of a command finds a schedule, and if not, what is another thing
    Why {
        /// The program and its arguments
        #[arg(required = true, last = true, value_name = "PROG ARGS")]
        command: Vec<OsString>,
    },
    /// Compare every byte with its checksum; exit status 1 if something is wrong
    Check {
        /// Names that `ls` prints, or the beginnings of some; all schedules if absent
        #[arg(value_name = "NAME")]
        names: Vec<OsString>,
    },
    /// Delete schedules, damaged ones too
    Rm {
        /// Names that `ls` prints, or the beginnings of some
        #[arg(required_unless_present = "all", value_name = "NAME")]
        names: Vec<OsString>,
        /// Delete all schedules that `ls` lists
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
    /// Put schedules into one file
    Pack {
        /// Names that `ls` prints, or the beginnings of some; all schedules if absent
        #[arg(value_name = "NAME")]
        names: Vec<OsString>,
        /// Write FILE, which must not exist yet
        #[arg(short, long, value_name = "FILE", default_value = "schedules.refrain")]
        output: PathBuf,
    },
    /// Add the schedules of a file that `pack` wrote: all of them or none. What the cache has already stays.
    /// A schedule decides in which order threads go on: unpack only what comes from people whom you trust
    Unpack {
        /// A file that `refrain schedules pack` wrote
        file: PathBuf,
    },
}
