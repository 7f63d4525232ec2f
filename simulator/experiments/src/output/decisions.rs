//! `decisions.parquet`, a row for each attempt, and `verdicts.parquet`, a row for each word of a plugin on a node.

use super::columns::Column::{self, Optional, Text, Truth, Whole};
use super::columns::{Table, why};
use crate::decision::{Decided, Verdict};
use crate::output::explained::Explained;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::record::RowAccessor;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Begins both files. Errors begin with the name of the file.
    pub fn new(decisions: W, verdicts: Option<W>) -> Result<Self, String> {
        let at = |name: &'static str| move |error| format!("{name}: {}", why(error));
        let decisions = Table::new("decisions", DECISION_COLUMNS, decisions).map_err(at(DECISIONS))?;
        let verdicts = verdicts.map(|sink| Table::new("verdicts", VERDICT_COLUMNS, sink).map_err(at(VERDICTS)));
        let verdicts = verdicts.transpose()?;
        Ok(Self { decisions, verdicts })
    }

    /// Adds a row for an attempt.
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

/// Reads what the plugins said in some attempts from `verdicts.parquet`, by the number of the attempt.
pub fn explain(file: impl ChunkReader + 'static, attempts: &BTreeSet<u64>) -> Result<BTreeMap<u64, Explained>, String> {
    // The rows are in the order of the attempts, so that most groups of a large file have none of these.
    let wanted = attempts.clone();
    let has_some = move |group: &RowGroupMetaData, _: usize| match group.column(0).statistics() {
        Some(Statistics::Int64(numbers)) => {
            let bound =
                |number: Option<&i64>, open: u64| number.map_or(open, |number| u64::try_from(*number).unwrap_or(0));
            wanted.range(bound(numbers.min_opt(), 0)..=bound(numbers.max_opt(), u64::MAX)).next().is_some()
        }
        _ => true,
    };
    let options = ReadOptionsBuilder::new().with_predicate(Box::new(has_some)).build();
    let reader = SerializedFileReader::new_with_options(file, options).map_err(why)?;
    let mut found: BTreeMap<u64, Explained> = BTreeMap::new();
    for row in reader.get_row_iter(None).map_err(why)? {
        let row = row.map_err(why)?;
        let number = u64::try_from(row.get_long(0).map_err(why)?).unwrap_or_default();
        if !attempts.contains(&number) {
            continue;
        }
        let text = |at: usize| row.get_string(at).cloned();
        let read = || -> parquet::errors::Result<Verdict> {
            Ok(Verdict {
                number,
                pod: text(1)?,
                node: text(2)?,
                searched: row.get_bool(3)?,
                fits: row.get_bool(4)?,
                chosen: row.get_bool(5)?,
                point: text(6)?,
                plugin: text(7)?,
                result: text(8)?,
                reasons: text(9)?,
                raw: row.get_long(10).ok(),
                normalised: row.get_long(11).ok(),
                weight: row.get_long(12).ok(),
            })
        };
        found.entry(number).or_default().add(read().map_err(why)?);
    }
    Ok(found.into_iter().map(|(number, explained)| (number, explained.finished())).collect())
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
