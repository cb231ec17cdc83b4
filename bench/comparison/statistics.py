"""The statistics of samples: means and spread, Student's t, outliers, ratios.

Pure arithmetic. Spread is the sample's (divided by n - 1); with one sample it is 0 and the interval
of the mean is unknown (nan).
"""
import math
from dataclasses import dataclass

CONFIDENCE = 0.95
OUTLIER_SIGMAS = 2


@dataclass(frozen=True)
class Statistics:
    n: int
    mean: float
    median: float
    stddev: float
    cv: float          # stddev / mean
    half_width: float  # of the 95 % confidence interval of the mean
    outliers: int      # samples further than two sigmas from the mean
    low: float
    high: float
    apart: tuple       # what was taken for independent, in order of time

    @property
    def relative_half_width(self):
        return self.half_width / self.mean if self.mean else math.nan


def t_probability(t, freedom):
    """P(|T| <= t) of Student's distribution with a whole number of degrees of freedom.

    The finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for k in range(2 if odd else 1, freedom - 1, 2):
        term *= k / (k + 1) * cosine * cosine
        total += term
    if odd:
        return 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0))
    return math.sin(angle) * total


def t_quantile(confidence, freedom):
    """The t with P(|T| <= t) = confidence."""
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < confidence:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if t_probability(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _half_width(samples):
    """Of the 95 % interval of the mean of independent numbers."""
    n = len(samples)
    if n < 2:
        return math.nan
    mean = math.fsum(samples) / n
    variance = math.fsum((x - mean) ** 2 for x in samples) / (n - 1)
    return t_quantile(CONFIDENCE, n - 1) * math.sqrt(variance / n)


def may_have_outliers(n):
    """By their own mean and deviation no one of n numbers lies further out than this."""
    return (n - 1) / math.sqrt(n) > OUTLIER_SIGMAS


def describe(samples, group=1):
    """The Statistics of one or more numbers.

    Runs in close succession share the machine's mood. Where each `group` of samples in a row is of
    such runs, only the means of these groups are taken for independent.
    """
    n = len(samples)
    apart = [math.fsum(samples[i:i + group]) / len(samples[i:i + group]) for i in range(0, n, group)]
    mean = math.fsum(samples) / n
    stddev = math.sqrt(math.fsum((x - mean) ** 2 for x in samples) / (n - 1)) if n > 1 else 0.0
    # A spread that is only rounding has no outliers.
    threshold = max(OUTLIER_SIGMAS * stddev, 1e-12 * abs(mean))
    outliers = sum(abs(x - mean) > threshold for x in samples)
    return Statistics(n, mean, median(samples), stddev, stddev / mean if mean else 0.0,
                      _half_width(apart), outliers, min(samples), max(samples), tuple(apart))


def ratio(ours, theirs):
    """The median of the ratios of each round, and half the width of their mean's 95 % confidence interval.

    The runs of a round follow each other: a machine that is slow for a while is so for both. By the
    logarithms, so that the ratio the other way round is the inverse. Beside itself everything is 1.
    """
    if ours is theirs:
        return 1.0, 0.0
    if len(ours.apart) != len(theirs.apart) or min(*ours.apart, *theirs.apart) <= 0:
        return math.nan, math.nan
    logarithms = [math.log(our / their) for our, their in zip(ours.apart, theirs.apart)]
    value = math.exp(median(logarithms))
    return value, value * _half_width(logarithms)


def geometric_mean(values):
    """The geometric mean of positive numbers; nan for none."""
    values = list(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else math.nan
