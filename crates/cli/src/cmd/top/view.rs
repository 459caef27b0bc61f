//! What of a mount is looked at. Pure.

/// What the lower part shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Files,
    Requests,
    Calls,
    Waiting,
    Uploads,
    Cache,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) tab: Tab,
    /// Lines that are passed over.
    pub(super) scrolled: usize,
    pub(super) is_paused: bool,
    pub(super) is_helping: bool,
}

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Next,
    Before,
    Up,
    Down,
    Pause,
    Help,
}

impl Tab {
    pub(super) const ALL: [Tab; 6] =
        [Tab::Files, Tab::Requests, Tab::Calls, Tab::Waiting, Tab::Uploads, Tab::Cache];

    pub(super) fn name(self) -> &'static str {
        match self {
            Tab::Files => "files",
            Tab::Requests => "requests",
            Tab::Calls => "calls",
            Tab::Waiting => "waiting",
            Tab::Uploads => "uploads",
            Tab::Cache => "cache",
        }
    }

    fn moved(self, by: usize) -> Tab {
        let at = Tab::ALL.iter().position(|&tab| tab == self).expect("all are listed");
        Tab::ALL[(at + by) % Tab::ALL.len()]
    }
}

impl View {
    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::None => {}
            Change::Next => self.turn(1),
            Change::Before => self.turn(Tab::ALL.len() - 1),
            Change::Up => self.scrolled = self.scrolled.saturating_sub(1),
            Change::Down => self.scrolled += 1,
            Change::Pause => self.is_paused = !self.is_paused,
            Change::Help => self.is_helping = !self.is_helping,
        }
    }

    fn turn(&mut self, by: usize) {
        *self = View { tab: self.tab.moved(by), scrolled: 0, is_helping: false, ..*self };
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Tab, View};

    #[test]
    fn tabs_go_round_in_both_directions_and_begin_at_the_top() {
        let mut view = View::default();
        view.change(Change::Down);
        view.change(Change::Before);
        assert_eq!((view.tab, view.scrolled), (Tab::Cache, 0));
        view.change(Change::Next);
        assert_eq!(view.tab, Tab::Files);
        view.change(Change::Up);
        assert_eq!(view.scrolled, 0);
    }

    #[test]
    fn pause_and_help_are_switched() {
        let mut view = View::default();
        for change in [Change::Pause, Change::Help] {
            view.change(change);
        }
        assert!(view.is_paused && view.is_helping);
        view.change(Change::Next);
        assert!(!view.is_helping, "who looks elsewhere has read it");
        view.change(Change::Pause);
        assert!(!view.is_paused);
    }
}
