//! Lower convex hulls of points in order of time.

/// Maximum number of points of one span. Beyond that, the flattest corner is removed.
pub(super) const VERTICES: usize = 8;

/// A point: seconds after the first packet, and difference of the stamps beyond the first one's, in seconds.
pub(super) type Point = (f64, f64);

#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    pub packets: u64,
    pub hull: Vec<Point>,
}

impl Span {
    pub(super) fn add(&mut self, point: Point) {
        let place = self.hull.partition_point(|before| before.0 < point.0);
        self.hull.insert(place, point);
        keep_hull(&mut self.hull);
        if self.hull.len() > VERTICES {
            let height = |at: usize| -turn(self.hull[at - 1], self.hull[at], self.hull[at + 1]).abs();
            let flattest = (1..self.hull.len() - 1).max_by(|&a, &b| height(a).total_cmp(&height(b)));
            self.hull.remove(flattest.unwrap_or(1));
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.packets += other.packets;
        other.hull.into_iter().for_each(|point| self.add(point));
    }
}

/// Twice the area of a triangle; positive if the corner at `b` turns upwards, as in a lower hull.
fn turn(a: Point, b: Point, c: Point) -> f64 {
    (b.0 - a.0) * (c.1 - a.1) - (b.1 - a.1) * (c.0 - a.0)
}

/// Leaves the lower convex hull of points in order of time.
pub(super) fn keep_hull(points: &mut Vec<Point>) {
    let mut kept = 0;
    for next in 0..points.len() {
        let point = points[next];
        kept = push(points, kept, point);
    }
    points.truncate(kept);
}

/// Appends a point to the first `kept`, which are a hull, and returns the new number. It overwrites a later place.
pub(super) fn push(points: &mut [Point], mut kept: usize, point: Point) -> usize {
    if kept > 0 && points[kept - 1].0 >= point.0 {
        if points[kept - 1].1 <= point.1 {
            return kept;
        }
        kept -= 1;
    }
    while kept >= 2 && turn(points[kept - 2], points[kept - 1], point) <= 0.0 {
        kept -= 1;
    }
    points[kept] = point;
    kept + 1
}
