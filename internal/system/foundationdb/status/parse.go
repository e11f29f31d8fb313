package status

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MaxProcesses is how many processes a cluster may have: far above what any has.
const MaxProcesses = 5000

// Parse reads a status document. An error is a sentence without any of its words.
func Parse(data []byte) (*Status, error) {
	var head struct {
		Client  json.RawMessage `json:"client"`
		Cluster json.RawMessage `json:"cluster"`
	}
	if err := json.Unmarshal(data, &head); err != nil || head.Client == nil {
		return nil, errors.New("the status is not a JSON document with the field client")
	}
	var s Status
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("the status has another shape than that of FoundationDB 7: %w", shape(err))
	}
	if len(s.Cluster.Processes) > MaxProcesses {
		return nil, fmt.Errorf("the status has %d processes, and %d are accepted at most", len(s.Cluster.Processes), MaxProcesses)
	}
	for id, p := range s.Cluster.Processes {
		if p == nil {
			delete(s.Cluster.Processes, id)
		}
	}
	return &s, nil
}

// shape names the field that has another type.
func shape(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s must be of type %s", wrong.Field, wrong.Type)
	}
	return errors.New("it cannot be read")
}
