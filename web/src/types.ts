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
