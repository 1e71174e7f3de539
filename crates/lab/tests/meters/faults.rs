//! The meters themselves: what was seen of sound runs, with one fault each.
