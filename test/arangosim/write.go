package arangosim

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// operation is what a write to the agency does with one key, and precondition what one must be: {"old": V} or {"oldEmpty": true}.
type (
	operation struct {
		Op  string `json:"op"` // set or delete; no other is known here
		New any    `json:"new"`
	}
	precondition struct {
		Old   any  `json:"old"`
		Empty bool `json:"oldEmpty"`
	}
)

// transaction is [{KEY: operation}, {KEY: precondition}].
type transaction struct {
	operations    map[string]operation
	preconditions map[string]precondition
}

func (t *transaction) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for i, into := range []any{&t.operations, &t.preconditions}[:min(2, len(parts))] {
		if err := json.Unmarshal(parts[i], into); err != nil {
			return err
		}
	}
	return nil
}

// serveWrite carries out the transactions whose preconditions hold. The index of one whose preconditions do not is 0.
func (c *Cluster) serveWrite(w http.ResponseWriter, r *http.Request, p *process, body []byte) {
	var transactions []transaction
	if c.handsOn(w, r, p) {
		return
	}
	if json.Unmarshal(body, &transactions) != nil {
		answer(w, http.StatusBadRequest, map[string]any{"message": "bad request"})
		return
	}
	status, indexes := http.StatusOK, []int{}
	for _, t := range transactions {
		if !c.write(t) {
			status = http.StatusPreconditionFailed
			indexes = append(indexes, 0)
			continue
		}
		indexes = append(indexes, p.log)
	}
	answer(w, status, map[string]any{"results": indexes})
}

// write carries a transaction out as a whole, or not at all.
func (c *Cluster) write(t transaction) bool {
	whole := tree{"arango": map[string]any(c.tree)}
	for path, must := range t.preconditions {
		is := whole.get(strings.Trim(path, "/"))
		if must.Empty && is != nil || !must.Empty && !reflect.DeepEqual(is, must.Old) {
			return false
		}
	}
	for _, path := range slices.Sorted(maps.Keys(t.operations)) {
		operation := t.operations[path]
		if operation.Op == "delete" {
			operation.New = nil
		}
		whole.set(strings.Trim(path, "/"), operation.New)
	}
	c.written()
	return true
}
