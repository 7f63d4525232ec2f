//! `decisions.parquet`, a row for each attempt, and `verdicts.parquet`, a row for each word of a plugin on a node.

use super::columns::Column::{self, Optional, Text, Truth, Whole};
use super::columns::{Table, why};
use crate::decision::{Decided, Verdict};
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::RowAccessor;
use std::collections::BTreeSet;
use std::io::Write;

pub const DECISIONS: &str = "decisions.parquet";
pub const VERDICTS: &str = "verdicts.parquet";

const DECISION_COLUMNS: &[Column<Decided>] = &[
    Whole("number", |row| row.number),
    Whole("at_us", |row| row.at_us),
    Whole("took_us", |row| row.took_us),
    Text("pod", |row| &row.pod),
    Whole("attempt", |row| row.attempt.into()),
    Text("profile", |row| &row.profile),
    Text("result", |row| &row.result),
    Text("node", |row| &row.node),
    Whole("evaluated", |row| row.evaluated),
    Whole("feasible", |row| row.feasible),
    Whole("ties", |row| row.ties),
    Optional("score", |row| row.score),
    Whole("victims", |row| row.victims),
    Text("reason", |row| &row.reason),
];

const VERDICT_COLUMNS: &[Column<Verdict>] = &[
    Whole("number", |row| row.number),
    Text("pod", |row| &row.pod),
    Text("node", |row| &row.node),
    Truth("searched", |row| row.searched),
    Truth("fits", |row| row.fits),
    Truth("chosen", |row| row.chosen),
    Text("point", |row| &row.point),
    Text("plugin", |row| &row.plugin),
    Text("result", |row| &row.result),
    Text("reasons", |row| &row.reasons),
    Optional("raw", |row| row.raw),
    Optional("normalised", |row| row.normalised),
    Optional("weight", |row| row.weight),
];

/// The two files. They are written during the run, because verdicts on large clusters do not fit into memory.
pub struct Decisions<W: Write + Send> {
    decisions: Table<Decided, W>,
    verdicts: Option<Table<Verdict, W>>,
}

impl<W: Write + Send> Decisions<W> {
    pub fn new(decisions: W, verdicts: Option<W>) -> Result<Self, String> {
        let decisions = Table::new("decisions", DECISION_COLUMNS, decisions).map_err(why)?;
        let verdicts = verdicts.map(|sink| Table::new("verdicts", VERDICT_COLUMNS, sink).map_err(why)).transpose()?;
        Ok(Self { decisions, verdicts })
    }

    /// Adds a row for an attempt. The error begins with the name of the file.
    pub fn add(&mut self, decided: Decided, verdicts: Vec<Verdict>) -> Result<(), String> {
        self.decisions.push(decided).map_err(|error| format!("{DECISIONS}: {}", why(error)))?;
        let Some(table) = &mut self.verdicts else { return Ok(()) };
        let added = verdicts.into_iter().try_for_each(|verdict| table.push(verdict));
        added.map_err(|error| format!("{VERDICTS}: {}", why(error)))
    }

    /// Ends both files, and returns them.
    pub fn finish(self) -> Result<Vec<(&'static str, W)>, String> {
        let ended = |name: &'static str, ended: parquet::errors::Result<W>| match ended {
            Ok(sink) => Ok((name, sink)),
            Err(error) => Err(format!("{name}: {}", why(error))),
        };
        let mut files = vec![ended(DECISIONS, self.decisions.finish())?];
        if let Some(verdicts) = self.verdicts {
            files.push(ended(VERDICTS, verdicts.finish())?);
        }
        Ok(files)
    }
}

/// Reads the attempts of some pods from `decisions.parquet`, in order.
pub fn read(file: impl ChunkReader + 'static, pods: &BTreeSet<String>) -> Result<Vec<Decided>, String> {
    let reader = SerializedFileReader::new(file).map_err(why)?;
    let mut found = Vec::new();
    for row in reader.get_row_iter(None).map_err(why)? {
        let row = row.map_err(why)?;
        let text = |at: usize| row.get_string(at).cloned();
        let whole = |at: usize| row.get_long(at).map(|number| u64::try_from(number).unwrap_or_default());
        let read = || -> parquet::errors::Result<Decided> {
            Ok(Decided {
                number: whole(0)?,
                at_us: whole(1)?,
                took_us: whole(2)?,
                pod: text(3)?,
                attempt: u32::try_from(whole(4)?).unwrap_or(u32::MAX),
                profile: text(5)?,
                result: text(6)?,
                node: text(7)?,
                evaluated: whole(8)?,
                feasible: whole(9)?,
                ties: whole(10)?,
                score: row.get_long(11).ok(),
                victims: whole(12)?,
                reason: text(13)?,
            })
        };
        if pods.contains(row.get_string(3).map_err(why)?) {
            found.push(read().map_err(why)?);
        }
    }
    Ok(found)
}
