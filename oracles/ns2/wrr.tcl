# Three classes below the link take turns by weight; a tenth of the link is nobody's, and A pauses.
source [file join [file dirname [info script]] common.tcl]
link 8.192Mb CBQ/WRR 2 2000
class A top 0.45
class B top 0.30
class C top 0.15
flow A 9Mb 1000 {0 5 10 15}
flow B 9.1Mb 1000 {0 15}
flow C 9.2Mb 1000 {0 15}
measure 15
