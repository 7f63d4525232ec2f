//! `Table`: columns of text, as `kubectl get` prints them.

use std::fmt;

/// Blanks between two columns.
const GAP: usize = 3;

pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(headers: &[&str]) -> Self {
        Self { rows: vec![headers.iter().map(|header| (*header).to_owned()).collect()] }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| if cell.is_empty() { "<none>".to_owned() } else { cell }).into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<0$}", width + GAP));
            writeln!(f, "{}", cells.collect::<String>().trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let mut table = Table::new(&["NAME", "ZONE"]);
        table.row(["node-10".to_owned(), "a".to_owned()]);
        table.row(["n".to_owned(), String::new()]);
        assert_eq!(table.to_string(), "NAME      ZONE\nnode-10   a\nn         <none>\n");
    }
}
