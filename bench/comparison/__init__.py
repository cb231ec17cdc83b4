"""The parts of bench/compare, bench/instructions and bench/settings, lowest first; each uses only those named
before it.

errors, statistics, elf, machine      know nothing of the rest
catalogue, matrix, studies            what is run: rows of workload and arguments
allocators                            what it is run with
outcome                               every sample of every run
noise, measure                        the runs themselves; give an Outcome
callgrind                             runs whose instructions are counted
summary                               what the samples of an Outcome say
claims                                what is claimed of the whole, and whether it holds
text, files, pictures, markdown       how it is shown
command, counting, settings           the command lines
"""
