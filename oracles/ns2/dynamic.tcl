# Two agencies with a class of priority 1 and one of priority 2 each, of which one after the other comes and goes.
source [file join [file dirname [info script]] common.tcl]
link 8.192Mb CBQ/WRR 3 2000
class A top 0.69 3 2
class B top 0.29 3 2
class A1 A 0.3 1
class A2 A 0.3 2
class B1 B 0.1 1
class B2 B 0.1 2
flow A1 2.2Mb 1000 {0 12 16 20}
flow A2 9.1Mb 1000 {4 20}
flow B1 9.2Mb 1000 {0 4 8 12}
flow B2 9.3Mb 1000 {0 20}
measure 20
