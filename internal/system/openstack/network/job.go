package network

import (
	"slices"
	"strconv"
	"strings"
)

const (
	jobMoved  = "moved "
	jobMoving = ", moving "
)

// String is the job as it is written down. It has room for the ids of six things.
func (j Job) String() string {
	words := jobMoved + strconv.Itoa(j.Moved)
	if len(j.Moving) > 0 {
		words += jobMoving + strings.Join(j.Moving, " ")
	}
	return words
}

// ParseJob reads what String wrote.
func ParseJob(words string) (Job, bool) {
	head, ids, _ := strings.Cut(words, jobMoving)
	number, isJob := strings.CutPrefix(head, jobMoved)
	moved, err := strconv.Atoi(number)
	if !isJob || err != nil {
		return Job{}, false
	}
	return Job{Moved: moved, Moving: slices.Clip(strings.Fields(ids))}, true
}
