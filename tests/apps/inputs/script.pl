# Hashes, sorting, regular expressions, growing strings, closures and fork; prints counts and checksums.
use strict;
use warnings;

system("$ENV{APPS}/served", $$) == 0 or exit 1;

# perl's own rand differs from build to build.
my $state = 1;
sub number { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0]; }

my %counts;
$counts{ "word" . number(30000) }++ for 1 .. 200000;
my @common = sort { $counts{$b} <=> $counts{$a} || $a cmp $b } keys %counts;
print "words ", scalar(@common), " $_ $counts{$_}\n" for @common[0 .. 4];

my %tree;
for (1 .. 30000) {
	my ($a, $b, $c) = (number(20), number(50), number(100));
	push @{ $tree{$a}{$b}{$c} }, "leaf$_" x (1 + number(5));
}
delete $tree{$_} for 0 .. 9;
my ($leaves, $bytes) = (0, 0);
for my $a (sort keys %tree) {
	for my $b (sort keys %{ $tree{$a} }) {
		for my $list (values %{ $tree{$a}{$b} }) { $leaves += @$list; $bytes += length for @$list; }
	}
}
print "tree $leaves $bytes\n";

my $text = join ' ', map { "key$_=" . number(1000) } 1 .. 50000;
my $pairs = () = $text =~ /key(\d+)=(\d+)/g;
(my $swapped = $text) =~ s/key(\d+)=(\d+)/$2:$1/g;
my @fields = sort { reverse($a) cmp reverse($b) } split / /, $swapped;
print "text $pairs ", unpack('%32C*', $swapped), " $fields[0] $fields[-1]\n";

my $grown = '';
$grown .= chr(65 + $_ % 26) for 1 .. 500000;
substr($grown, number(length $grown), 10) = 'x' x number(100) for 1 .. 2000;
print "grown ", length($grown), " ", unpack('%32C*', $grown), "\n";

my @closures = map { my $n = $_; sub { return $n += shift } } 1 .. 20000;
my $sum = 0;
$sum += $_->(3) for @closures, @closures;
print "closures $sum\n";

for my $child (1 .. 20) {
	pipe(my $reader, my $writer) or die;
	my $pid = fork // die;
	if ($pid == 0) {
		close $reader;
		my %mine = map { ("$child-$_" => [ 1 .. $_ % 30 ]) } 1 .. 5000;
		my $total = 0;
		$total += @$_ for values %mine;
		print $writer "$total\n";
		exit $child % 3;
	}
	close $writer;
	my $answer = <$reader>;
	waitpid $pid, 0;
	print "child $child ", $? >> 8, " $answer";
}
