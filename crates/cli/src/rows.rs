//! Selection of classes to show of a large tree.

use fairlink_config::LinkFile;
use fairlink_core::ClassId;

use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::Out;

/// Most classes that are shown in text without being asked for.
pub(crate) const MOST_ROWS: usize = 300;
/// Classes that are shown of a level that alone has more than [`MOST_ROWS`].
const EXAMPLES: usize = 20;

/// Which classes to show.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct RowArgs {
    /// Show every class. By default, text has the upper levels and a summary of more than 300 classes; JSON always has
    /// all.
    #[arg(long)]
    all: bool,
    /// Show only this class; in text with its ancestors.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    class: Option<String>,
}

/// The classes to show, in the order of the tree.
pub(crate) struct Rows {
    /// `None` for all.
    some: Option<Vec<ClassId>>,
    classes: usize,
    /// True if classes are missing that were not asked to be left out.
    pub(crate) summarised: bool,
}

impl Rows {
    /// Number of classes.
    pub(crate) fn len(&self) -> usize {
        self.some.as_ref().map_or(self.classes, Vec::len)
    }

    /// The one at a position.
    pub(crate) fn at(&self, row: usize) -> ClassId {
        self.some.as_ref().map_or(ClassId(row as u32 + 1), |some| some[row])
    }
}

impl RowArgs {
    /// The class that is asked for.
    pub(crate) fn class(&self, link: &LinkFile) -> Result<Option<ClassId>, CliError> {
        let find = |name: &String| link.names.find(name).map_err(|error| CliError::wrong(format!("--class: {error}")));
        self.class.as_ref().map(find).transpose()
    }

    /// The name of the class that is asked for, as written.
    pub(crate) fn name(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// Returns true if this number of rows is to be shown.
    pub(crate) fn shows(&self, rows: usize) -> bool {
        self.all || rows <= MOST_ROWS
    }

    /// Returns the classes for JSON: all, or the selected one.
    pub(crate) fn in_json(&self, link: &LinkFile) -> Result<Rows, CliError> {
        let some = self.class(link)?.map(|class| vec![class]);
        Ok(Rows { some, classes: link.tree.len() - 1, summarised: false })
    }

    /// Returns the classes for text.
    pub(crate) fn in_text(&self, link: &LinkFile) -> Result<Rows, CliError> {
        let tree = &link.tree;
        let classes = tree.len() - 1;
        let (some, summarised) = if let Some(class) = self.class(link)? {
            let above = std::iter::successors(Some(class), |&class| tree.parent(class));
            let mut path: Vec<ClassId> = above.collect();
            path.reverse();
            // The link has no row, unless it is what was asked for.
            (Some(if path.len() > 1 { path.split_off(1) } else { Vec::new() }), false)
        } else if self.shows(classes) {
            (None, false)
        } else {
            (Some(upper_levels(link)), true)
        };
        Ok(Rows { some, classes, summarised })
    }
}

/// Returns the upper levels that have at most [`MOST_ROWS`] classes together; if the first level has more, its first
/// classes.
fn upper_levels(link: &LinkFile) -> Vec<ClassId> {
    let tree = &link.tree;
    let mut by_level = vec![0usize; tree.levels() + 1];
    tree.classes().for_each(|class| by_level[tree.depth(class)] += 1);
    let mut shown = 0;
    let fits = |&level: &usize| {
        shown += by_level[level];
        shown <= MOST_ROWS
    };
    match (1..by_level.len()).take_while(fits).last() {
        Some(levels) => tree.classes().filter(|&class| tree.depth(class) <= levels).collect(),
        None => tree.children(ClassId::ROOT)[..EXAMPLES].to_vec(),
    }
}

/// Summarises the omitted classes: for each level their number, and the extremes of `rate`, with the heading `title`.
pub(crate) fn summary(
    link: &LinkFile,
    rows: &Rows,
    title: &str,
    rate: impl Fn(ClassId) -> Option<u64>,
    out: &mut Out,
) -> Result<(), CliError> {
    let tree = &link.tree;
    let left_out = human::count(rows.classes - rows.len(), "class is", "classes are");
    out.line("")?;
    out.paragraph(&format!("{left_out} not shown; --all shows all, --class NAME one. By level:"), 2)?;
    out.line("")?;
    let mut levels = vec![(0usize, 0usize, u64::MAX, 0u64); tree.levels()];
    for class in tree.classes() {
        let level = &mut levels[tree.depth(class) - 1];
        let (least, most) = rate(class).map_or((level.2, level.3), |rate| (level.2.min(rate), level.3.max(rate)));
        *level = (level.0 + 1, level.1 + usize::from(tree.is_leaf(class)), least, most);
    }
    let head = [
        "level".to_owned(),
        "classes".into(),
        "leaves".into(),
        format!("smallest {title}"),
        format!("largest {title}"),
    ];
    let level = |(index, (classes, leaves, least, most)): (usize, (usize, usize, u64, u64))| {
        // A level has classes, so that there is a least unless nothing is known.
        let known = |rate: u64| if least > most { "-".to_owned() } else { human::rate(rate as f64) };
        let rates = [least, most].map(known);
        [vec![(index + 1).to_string(), classes.to_string(), leaves.to_string()], rates.into()].concat()
    };
    out.table(&head, levels.into_iter().enumerate().map(level).collect(), 0..head.len())
}
