# Experiment 3 of the HLS paper: A, B1 and C1 send for 10 s and pause for one.
# The second argument is the order of the classes below the link, such as DCBA, and whether leaves stand in theirs, or in the reverse (DCBA-).
source [file join [file dirname [info script]] common.tcl]
set order [lindex $argv 1]
if {$order == ""} { set order ABCD }
link 8.192Mb CBQ/WRR 3 2225
proc branch {name} {
    global order
    class $name top 0.25 3 2
    foreach leaf [expr {[string match *- $order] ? {2 1} : {1 2}}] { class $name$leaf $name 0.125 }
}
foreach name [split [string trimright $order -] ""] {
    switch $name {
        A { class A top 0.2 }
        D { class D top 0.3 }
        default { branch $name }
    }
}
flow A 9Mb 1000 {0 10 11 21 22 32}
flow B1 9.1Mb 1000 {0 10 11 21 22 32}
flow C1 9.2Mb 1000 {0 10 11 21 22 32}
measure 32
