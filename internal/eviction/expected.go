package eviction

import (
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// expected is when the last step that is needed will probably be done; zero where that is not known.
func (j *judgement) expected() time.Time {
	if len(j.verdict.Needed) != 1 {
		return time.Time{}
	}
	step := &j.verdict.Needed[0]
	at := stepOf(j.policy, step)
	switch {
	case at < 0 && step.ExpectedDuration > 0:
		return j.in.Now.Add(step.ExpectedDuration)
	case at < 0 || j.status().Preparations[at].State != v1alpha1.PreparationBegun || j.anotherPods(&j.status().Preparations[at]):
		return time.Time{}
	case step.ExpectedDuration > 0:
		return j.status().Preparations[at].StartTime.Add(step.ExpectedDuration)
	}
	return j.atPace(step.Remaining, &j.status().Preparations[at])
}

// atPace assumes that what is left takes as long for each piece as what was done since the step was begun.
func (j *judgement) atPace(left int64, entry *v1alpha1.PreparationStatus) time.Time {
	const furthest = 365 * 24 * time.Hour
	done, elapsed := entry.RemainingAtStart-left, j.in.Now.Sub(entry.StartTime.Time)
	if left <= 0 || done <= 0 || elapsed <= 0 {
		return time.Time{}
	}
	needed := elapsed.Seconds() / float64(done) * float64(left)
	if needed > furthest.Seconds() {
		return time.Time{}
	}
	return j.in.Now.Add(time.Duration(needed * float64(time.Second)))
}
