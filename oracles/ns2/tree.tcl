# Two agencies with two classes each; A2, then B1, then A1 pause.
source [file join [file dirname [info script]] common.tcl]
link 8.192Mb CBQ/WRR 3 2225
class A top 0.7 3 2
class B top 0.3 3 2
class A1 A 0.3
class A2 A 0.32
class B1 B 0.1
class B2 B 0.17
flow A1 9Mb 1000 {0 15}
flow A2 9.1Mb 1000 {0 5 15 20}
flow B1 9.2Mb 1000 {0 10 15 20}
flow B2 9.3Mb 1000 {0 20}
measure 20
