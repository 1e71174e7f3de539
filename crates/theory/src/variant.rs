//! A copy of a tree with other settings, for hypothetical questions.

use fairlink_core::{ClassConfig, ClassId, Hierarchy, HierarchyError, LinkConfig};

/// Copies `tree` to another link, with `change` applied to each class. Ids stay the same.
///
/// # Errors
/// [`HierarchyError`] if there can be no such tree.
pub(crate) fn variant(
    tree: &Hierarchy,
    link: LinkConfig,
    change: impl Fn(ClassId, &mut ClassConfig),
) -> Result<Hierarchy, HierarchyError> {
    let mut other = Hierarchy::builder(link);
    for class in tree.classes() {
        let mut config = *tree.config(class);
        change(class, &mut config);
        other.add(tree.parent(class).unwrap_or(ClassId::ROOT), config)?;
    }
    other.build()
}
