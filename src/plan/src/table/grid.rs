//! A table as kubectl prints it: upper-case heads, columns apart by blanks, no lines.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width, presets};

use super::RowLimit;

/// Columns of a terminal that a sentence gets at least.
const LEAST_SENTENCE: u16 = 24;

/// Text is set to the left, numbers to the right, money with its decimal points below each other.
#[derive(Clone, Copy)]
pub(super) enum Column {
    Text(&'static str),
    Number(&'static str),
    Money(&'static str),
}

pub(super) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new(columns: &[Column]) -> Self {
        Grid { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, texts: impl IntoIterator<Item = String>) {
        self.rows.push(texts.into_iter().collect());
    }

    fn cells(&self, texts: impl IntoIterator<Item = String>) -> Row {
        let cells = self.columns.iter().zip(texts).map(|(column, text)| match column {
            Column::Text(_) => Cell::new(text),
            Column::Number(_) | Column::Money(_) => Cell::new(text).set_alignment(CellAlignment::Right),
        });
        cells.collect::<Vec<Cell>>().into()
    }

    /// Writes a title and the table, without blanks at the ends of lines. Where the terminal is narrower, sentences are broken;
    /// names and numbers never are.
    pub(super) fn write<W: Write>(mut self, title: &str, rows: RowLimit, writer: &mut W) -> io::Result<()> {
        writeln!(writer, "\n{title}")?;
        for (at, _) in self.columns.iter().enumerate().filter(|(_, column)| matches!(column, Column::Money(_))) {
            align(self.rows.iter_mut().filter_map(|row| row.get_mut(at)));
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if let Some(width) = rows.width.and_then(|width| u16::try_from(width).ok()) {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        let head = |column: &Column| match column {
            Column::Text(head) | Column::Number(head) | Column::Money(head) => (*head).to_owned(),
        };
        table.set_header(self.cells(self.columns.iter().map(head)));
        for row in &self.rows {
            table.add_row(self.cells(row.iter().cloned()));
        }
        let sentences = |at: usize| self.rows.iter().filter_map(move |row| row.get(at)).any(|cell| is_sentence(cell));
        for (at, column) in table.column_iter_mut().enumerate() {
            let least = ColumnConstraint::LowerBoundary(Width::Fixed(LEAST_SENTENCE));
            column.set_constraint(if sentences(at) { least } else { ColumnConstraint::ContentWidth });
        }
        // Text begins at the margin.
        if let Some(first) = table.column_mut(0) {
            first.set_padding((0, 1));
        }
        for line in table.lines() {
            writeln!(writer, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn is_sentence(cell: &str) -> bool {
    cell.contains(' ') && cell.chars().count() > usize::from(LEAST_SENTENCE)
}

/// Gives amounts as many decimals as the one with most has.
fn align<'a>(cells: impl Iterator<Item = &'a mut String>) {
    let mut cells: Vec<&mut String> = cells.collect();
    let decimals = |cell: &String| cell.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let most = cells.iter().map(|cell| decimals(cell)).max().unwrap_or(0);
    for cell in cells.iter_mut().filter(|cell| cell.ends_with(|char: char| char.is_ascii_digit())) {
        let missing = most - decimals(cell);
        let point = if missing == most && most > 0 { "." } else { "" };
        **cell = format!("{cell}{point}{}", "0".repeat(missing));
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, Grid, align};
    use crate::table::RowLimit;

    #[test]
    fn a_narrow_terminal_breaks_sentences_and_neither_names_nor_numbers() {
        let why = "the PodDisruptionBudget default/web allows no eviction now";
        let mut grid = Grid::new(&[Column::Text("NODE"), Column::Text("WHY IT STAYS"), Column::Money("$/H")]);
        grid.row(["a-node-with-a-long-name".to_owned(), why.to_owned(), "0.0183".to_owned()]);
        let mut out = Vec::new();
        grid.write("Nodes", RowLimit::new(false, Some(60)), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("a-node-with-a-long-name") && text.contains("0.0183") && !text.contains(why), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn amounts_of_a_column_have_as_many_decimals() {
        let mut cells = ["0.0464", "0.20", "1,234.50", "7", "", "-", "-0.1"].map(str::to_owned);
        align(cells.iter_mut());
        assert_eq!(cells, ["0.0464", "0.2000", "1,234.5000", "7.0000", "", "-", "-0.1000"]);
        let mut whole = ["7", "12"].map(str::to_owned);
        align(whole.iter_mut());
        assert_eq!(whole, ["7", "12"]);
    }
}
