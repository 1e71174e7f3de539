# Two classes of 1 % and 99 %.
source [file join [file dirname [info script]] common.tcl]
link 8.192Mb CBQ/WRR 2 50000
class A top 0.01
class B top 0.99
flow A 9Mb 1000 {0 10}
flow B 9.1Mb 1000 {0 10}
measure 10
