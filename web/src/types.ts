// The parts of fairlink's documents that the page reads. `fairlink schema documents` has all of them.

export interface Problem {
  severity: "error" | "warning";
  code: string;
  line?: number;
  column?: number;
  length?: number;
  message: string;
  help: string | null;
}

export interface Terms {
  guarantee_bps: number | null;
  weight: number | null;
  ceiling_bps: number | null;
  share_all_busy_bps: number | null;
}

export interface Bounds {
  delay_bound_s?: number | null;
  fairness_s?: number | null;
  transmission_gap_s?: number | null;
}

export interface Ideal {
  request_bps: number | null;
  allocation_bps: number;
  satisfied: boolean;
  limited_by: string | null;
}

export interface Counts {
  received: Amount;
  sent: Amount;
  dropped: Amount;
}

export interface Amount {
  packets: number;
  bytes: number;
}

export interface ClassReport {
  name: string;
  parent: string | null;
  leaf: boolean;
  terms?: Terms;
  bounds?: Bounds;
  ideal?: Ideal;
  counts?: Counts;
  delay_s?: { p50: number | null; p99: number | null; max: number | null } | null;
}

export interface LinkReport {
  scheduler: string;
  capacity_bps: number;
  memory_bytes?: number | null;
  classes: ClassReport[];
  notes?: string[];
  spans?: Span[];
}

export interface Span {
  start_s: number;
  end_s: number;
  classes: { name: string; rates?: { ideal_bps?: number | null } }[];
}

export interface CheckDocument {
  valid: boolean;
  link: LinkReport;
  problems: Problem[];
}

export interface FluidDocument {
  rule: string;
  link: LinkReport;
}

export interface ExplainDocument {
  class: string;
  limited_by?: string[];
  text?: string;
  notes: string[];
}

export interface SchedulersDocument {
  schedulers: { name: string }[];
}

export interface ImportDocument {
  files: { name: string; text: string }[];
  kept: string[];
  changed: Problem[];
  left_out: Problem[];
}

export interface RunStep {
  now_s: number;
  done: boolean;
  run: { duration_s: number; link: LinkReport } | null;
}

export interface LiveTree {
  link: string;
  generation: number;
  scheduler: string;
  capacity_bps: number;
  classes: string[];
  parent: (number | null)[];
  leaf: boolean[];
  guarantee_bps: (number | null)[];
  ceiling_bps: (number | null)[];
  delay_bound_s: (number | null)[];
}

export interface LiveMoment {
  up: boolean;
  at_s: number;
  uptime_s: number;
  interval_s: number;
  rate_bps: (number | null)[];
  ideal_bps: (number | null)[];
  demand_bps: (number | null)[];
  delay_p50_s: (number | null)[];
  delay_p99_s: (number | null)[];
  queued_packets: number[];
  dropped_packets: number[];
  limit: (string | null)[];
  limited_by: (number | null)[];
  notes?: string[];
}

export interface HistoryDocument {
  classes: string[];
  at_s: number[];
  rate_bps: (number | null)[][];
  ideal_bps: (number | null)[][];
}

export interface StatsDocument {
  links: { classes: { name: string; counts?: { dropped: Amount; dropped_by?: Record<string, Amount> } }[] }[];
}

export interface ReloadDocument {
  committed: boolean;
  links: {
    link: string;
    scheduler: [string, string];
    link_bps: [number, number];
    notes: string[];
    committed: { generation: number; kept_packets: number; removed_packets: number; dropped_packets: number; took_s: number } | null;
    classes: { name: string; fate: string; moved_to?: string; before: Terms | null; after: Terms | null }[];
  }[];
}
