# Experiment 1 of the HLS paper: the tree of Figure 1, of which A1, B1, C and A2 stop in turn, 5 s apart.
# The second argument is the order of the classes below the link, such as CBA, and whether leaves stand in theirs, or in the reverse (CBA-).
source [file join [file dirname [info script]] common.tcl]
set order [lindex $argv 1]
if {$order == ""} { set order ABC }
# Each leaf has the quantum that ours has, at least a packet: with ns-2's own maxpkt_ of 1000 those of A1 and B1 are below one.
link 8.192Mb CBQ/WRR 3 2000
proc branch {name share leaves} {
    global order
    class $name top $share 3 2
    if {[string match *- $order]} { set leaves [list [lindex $leaves 2] [lindex $leaves 3] [lindex $leaves 0] [lindex $leaves 1]] }
    foreach {leaf part} $leaves { class $leaf $name $part }
}
foreach name [split [string trimright $order -] ""] {
    switch $name {
        A { branch A 0.3 {A1 0.1 A2 0.2} }
        B { branch B 0.3 {B1 0.1 B2 0.2} }
        C { class C top 0.4 }
    }
}
flow A1 9Mb 1000 {0 5}
flow A2 9.1Mb 1000 {0 20}
flow B1 9.2Mb 1000 {0 10}
flow B2 9.3Mb 1000 {0 25}
flow C 9.4Mb 1000 {0 15}
measure 25
