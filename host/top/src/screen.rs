//! The terminal: what is shown of a view, and what keys do.

use ratatui::{
    Frame,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Clear, Paragraph},
};

use crate::{
    tables::{self, Sort, Table},
    view::{CoreView, View},
};

/// What Tab goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Page {
    #[default]
    Counts,
    Memory,
    Caches,
    Messages,
}

/// What is shown, and how.
#[derive(Default)]
pub struct Screen {
    view: Option<View>,
    page: Page,
    sort: Sort,
    pub is_paused: bool,
    shows_help: bool,
    /// The first process that is shown.
    first: usize,
}

/// What a key asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    Nothing,
    Quit,
}

const HELP: &[&str] = &[
    "q, Ctrl-C  end motet top; the machine goes on",
    "space      stop here, and go on",
    "Tab        next table: counts, memory, caches, messages",
    "c m t p n  sort by CPU, memory, time, PID, name",
    "arrows, PgUp PgDn Home  scroll processes",
    "?          this; any key leaves it",
    "",
    "CALLS system calls   FAULTS page faults   RINGS doorbells rung",
    "COME threads from other islands   WAKES of threads elsewhere",
    "EDITS of other islands' page tables",
    "OUT threads in functions of another instruction set",
    "All counts are of the interval. docs/top.md has the rest.",
];

/// Columns of a core's cell.
const CELL: usize = 26;
/// Columns of its bar.
const BAR: usize = 5;

impl Screen {
    /// Shows a newer view.
    pub fn update(&mut self, view: View) {
        self.view = Some(view);
    }

    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> Wish {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Quit;
        }
        if std::mem::take(&mut self.shows_help) {
            return if key.code == KeyCode::Char('q') { Wish::Quit } else { Wish::Nothing };
        }
        if let KeyCode::Char('q') | KeyCode::Esc = key.code {
            return Wish::Quit;
        }
        if let KeyCode::Char(letter) = key.code {
            self.letter(letter);
        } else if key.code == KeyCode::Tab {
            self.turn_page();
        } else {
            self.scroll(key.code);
        }
        Wish::Nothing
    }

    fn letter(&mut self, letter: char) {
        match letter {
            ' ' => self.is_paused = !self.is_paused,
            '?' | 'h' => self.shows_help = true,
            letter => {
                if let Some(sort) = Sort::of_key(letter) {
                    (self.sort, self.first) = (sort, 0);
                }
            }
        }
    }

    fn scroll(&mut self, key: KeyCode) {
        let steps = [
            (KeyCode::Down, 1),
            (KeyCode::Up, -1),
            (KeyCode::PageDown, 10),
            (KeyCode::PageUp, -10),
            (KeyCode::Home, isize::MIN),
        ];
        if let Some((_, step)) = steps.into_iter().find(|(of, _)| *of == key) {
            self.first = self.first.saturating_add_signed(step);
        }
    }

    /// To the next table that there is.
    fn turn_page(&mut self) {
        let order = [Page::Counts, Page::Memory, Page::Caches, Page::Messages];
        let at = order.iter().position(|page| *page == self.page).unwrap_or(0);
        let next = (1..=order.len()).map(|step| order[(at + step) % order.len()]);
        self.page = next.into_iter().find(|page| self.table(*page).is_some()).unwrap_or_default();
    }

    fn table(&self, page: Page) -> Option<Table> {
        let view = self.view.as_ref()?;
        match page {
            Page::Counts => Some(tables::counts(view)),
            Page::Memory => Some(tables::memory(view)),
            Page::Caches => tables::caches(view),
            Page::Messages => tables::messages(view),
        }
    }

    /// Draws it all.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let Some(view) = self.view.take() else {
            frame.render_widget(Paragraph::new("motet top: the first interval"), area);
            return;
        };
        self.view = Some(view.clone());
        let width = usize::from(area.width);
        let upper =
            self.table(self.page).or_else(|| self.table(Page::Counts)).map_or(Vec::new(), |table| table.lines(width));
        let per_row = (width / CELL).max(1);
        let cores: Vec<&CoreView> = tables::all_cores(&view).collect();
        let core_rows = cores.len().div_ceil(per_row);
        // Processes have a third of the rows at least.
        let room = usize::from(area.height).saturating_sub(4) * 2 / 3;
        let upper_rows = upper.len().min(room.saturating_sub(core_rows.min(room / 2)));
        let core_rows = core_rows.min(room.saturating_sub(upper_rows));
        let rows = [2, upper_rows, core_rows].map(|rows| Constraint::Length(rows as u16));
        let [title, above, middle, below, foot] =
            Layout::vertical([rows[0], rows[1], rows[2], Constraint::Min(0), Constraint::Length(1)]).areas(area);
        frame.render_widget(Paragraph::new(title_lines(&view, width)), title);
        frame.render_widget(Paragraph::new(with_head(upper)), above);
        let lines: Vec<Line<'_>> =
            cores.chunks(per_row).map(|row| Line::from_iter(row.iter().flat_map(|core| cell(core)))).collect();
        frame.render_widget(Paragraph::new(lines), middle);
        self.draw_processes(frame, &view, below);
        frame.render_widget(Paragraph::new(self.foot(&view)).style(Style::new().add_modifier(Modifier::DIM)), foot);
        if self.shows_help {
            draw_help(frame);
        }
    }

    fn draw_processes(&mut self, frame: &mut Frame<'_>, view: &View, area: Rect) {
        let mut lines = tables::processes(view, self.sort).lines(area.width.into());
        let shown = usize::from(area.height).saturating_sub(1);
        self.first = self.first.min((lines.len() - 1).saturating_sub(shown));
        lines.drain(1..1 + self.first);
        frame.render_widget(Paragraph::new(with_head(lines)), area);
    }

    fn foot(&self, view: &View) -> String {
        let paused = if self.is_paused { "STOPPED (space goes on)  " } else { "" };
        let from = if self.first == 0 {
            String::new()
        } else {
            format!(" from {} of {}", self.first + 1, view.processes.len())
        };
        format!("{paused}q ends  space stops  Tab next table  c m t p n sort (by {}{from})  ? help", self.sort.name())
    }
}

/// Two lines: who, and the machine's memory.
fn title_lines(view: &View, width: usize) -> Vec<Line<'static>> {
    let title = tables::title(view);
    let (first, second) = title.split_once("; ").unwrap_or((&title, ""));
    let cut = |text: &str| text.chars().take(width).collect::<String>();
    vec![Line::styled(cut(first), Style::new().add_modifier(Modifier::BOLD)), Line::raw(cut(second))]
}

fn with_head(lines: Vec<String>) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = lines.into_iter().map(Line::raw).collect();
    if let Some(head) = lines.first_mut() {
        *head = std::mem::take(head).style(Style::new().add_modifier(Modifier::REVERSED));
    }
    lines
}

/// A core's name, how busy it is, and what it runs.
fn cell(core: &CoreView) -> Vec<Span<'static>> {
    let color = match core.busy {
        ..0.5 => Color::Green,
        0.5..0.9 => Color::Yellow,
        _ => Color::Red,
    };
    let full = ((core.busy * BAR as f64).round() as usize).min(BAR);
    let runs = core.runs.as_ref().map_or(core.state, |runs| &runs.name);
    let cut = |text: &str, len: usize| text.chars().take(len).collect::<String>();
    vec![
        Span::raw(format!("{:<8}", cut(&core.name, 8))),
        Span::styled("|".repeat(full), Style::new().fg(color)),
        Span::raw(" ".repeat(BAR - full)),
        Span::raw(format!("{:>5} {:<7}", tables::percent(core.busy), cut(runs, 6))),
    ]
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let width = HELP.iter().map(|line| line.len()).max().unwrap_or(0) as u16 + 4;
    let (width, height) = (width.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::raw(*line)).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(ratatui::widgets::Block::bordered().title(" motet top ")), place);
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::view::{self, ProcessView, tests::view};

    fn press(screen: &mut Screen, code: KeyCode) -> Wish {
        screen.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    /// Its rows.
    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let row = |row: u16| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        (0..height).map(|number| row(number).trim_end().to_owned()).collect()
    }

    fn of(view: View) -> Screen {
        Screen { view: Some(view), ..Screen::default() }
    }

    #[test]
    fn a_small_terminal_shows_islands_cores_and_processes() {
        let rows = drawn(&mut of(view()), 80, 24);
        let wanted = [
            "motet top: machine of process 4711, 2.0 s",
            "3 cores, 2 processes, 6 new; memory 256 of 1024 MiB",
            "ISLAND ISA     STATE BUSY CALLS FAULTS SWITCH RINGS COME WAKES EDITS SHOOT",
            "x86    x86_64  runs   25%   200    400    600   800 1200  1400  1600  1800",
            "riscv  riscv64 runs  100%   200    400    600   800 1200  1400  1600  1800",
            "x86.0           0% idle   x86.1   |||    50% idle   riscv.0 ||||| 100% sort",
            "PID USER S ISA     ISLANDS THR OUT  CPU    TIME MIB NAME",
            " 12 1000 R riscv64 riscv     1   0 100% 0:12.00  12 sort",
            "  1 root S riscv64 x86       1   0   0% 0:01.00 1.0 sh",
        ];
        assert_eq!(rows[..wanted.len()], wanted);
        assert_eq!(rows[23], "q ends  space stops  Tab next table  c m t p n sort (by CPU)  ? help");
    }

    #[test]
    fn keys_sort_stop_turn_pages_explain_and_end() {
        let mut screen = of(view());
        press(&mut screen, KeyCode::Char('p'));
        assert!(drawn(&mut screen, 80, 24)[7].starts_with("  1 root"));
        press(&mut screen, KeyCode::Char(' '));
        assert!(screen.is_paused && drawn(&mut screen, 80, 24)[23].starts_with("STOPPED"));
        press(&mut screen, KeyCode::Tab);
        assert!(drawn(&mut screen, 80, 24)[2].starts_with("ISLAND NEAR USED OF MIB"));
        press(&mut screen, KeyCode::Tab);
        assert_eq!(screen.page, Page::Counts, "there are neither caches nor messages");
        press(&mut screen, KeyCode::Char('?'));
        assert!(drawn(&mut screen, 80, 24).iter().any(|row| row.contains("q, Ctrl-C  end motet top")));
        assert_eq!(press(&mut screen, KeyCode::Char('x')), Wish::Nothing);
        assert!(!screen.shows_help);
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Wish::Quit);
        assert_eq!(screen.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Wish::Quit);
    }

    #[test]
    fn many_cores_and_processes_leave_room_for_each_other() {
        let mut view = view();
        let island = view.islands[1].clone();
        view.islands =
            (0..8).map(|_| view::IslandView { cores: vec![island.cores[0].clone(); 16], ..island.clone() }).collect();
        view.processes =
            (1..=100).map(|pid| ProcessView { pid, name: format!("p{pid}"), ..ProcessView::default() }).collect();
        let mut screen = of(view);
        let rows = drawn(&mut screen, 80, 24);
        let head = rows.iter().position(|row| row.trim_start().starts_with("PID")).unwrap();
        assert!((10..=17).contains(&head) && rows[head - 1].starts_with("riscv.0"), "{rows:#?}");
        for _ in 0..50 {
            press(&mut screen, KeyCode::PageDown);
        }
        let rows = drawn(&mut screen, 80, 24);
        assert!(rows[22].ends_with("p100") && rows[23].contains("of 100"), "{rows:#?}");
    }

    #[test]
    fn no_size_is_too_small() {
        for (width, height) in [(1, 1), (10, 3), (26, 5), (300, 100), (80, 2)] {
            let mut screen = of(view());
            drawn(&mut screen, width, height);
            press(&mut screen, KeyCode::Char('?'));
            drawn(&mut screen, width, height);
        }
        assert_eq!(drawn(&mut Screen::default(), 40, 2)[0], "motet top: the first interval");
    }
}
