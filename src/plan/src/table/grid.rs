//! A table as kubectl prints it: upper-case heads, columns apart by blanks, no lines.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Row, Table, presets};

/// Text that is set to the left, numbers to the right.
#[derive(Clone, Copy)]
pub(super) enum Column {
    Text(&'static str),
    Number(&'static str),
}

pub(super) struct Grid {
    columns: Vec<Column>,
    table: Table,
}

impl Grid {
    pub(super) fn new(columns: &[Column]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut grid = Grid { columns: columns.to_vec(), table };
        let heads = columns.iter().map(|(Column::Text(head) | Column::Number(head))| (*head).to_owned());
        let heads = grid.cells(heads);
        grid.table.set_header(heads);
        grid
    }

    fn cells(&self, texts: impl IntoIterator<Item = String>) -> Row {
        let cells = self.columns.iter().zip(texts).map(|(column, text)| match column {
            Column::Text(_) => Cell::new(text),
            Column::Number(_) => Cell::new(text).set_alignment(CellAlignment::Right),
        });
        cells.collect::<Vec<Cell>>().into()
    }

    pub(super) fn row(&mut self, texts: impl IntoIterator<Item = String>) {
        let row = self.cells(texts);
        self.table.add_row(row);
    }

    /// Writes a title and the table, without blanks at the ends of lines.
    pub(super) fn write<W: Write>(mut self, title: &str, writer: &mut W) -> io::Result<()> {
        writeln!(writer, "\n{title}")?;
        // Text begins at the margin.
        if let Some(first) = self.table.column_mut(0) {
            first.set_padding((0, 1));
        }
        for line in self.table.lines() {
            writeln!(writer, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
