package agency

import (
	"encoding/json"
	"fmt"
)

// RemoveSingle is the write of one transaction that takes a server of an active failover deployment off all lists, while it has failed and leader leads.
// The supervision judges those that are planned, and forgets the others.
func RemoveSingle(id, leader string) ([]byte, error) {
	type operation struct {
		Op string `json:"op"`
	}
	type precondition struct {
		Old string `json:"old"`
	}
	remove := map[string]operation{}
	for _, list := range []string{
		"Plan/Singles", "Current/Singles", "Current/ServersRegistered", "Current/ServersKnown", "Supervision/Health", "Target/MapUniqueToShortID",
	} {
		remove["/arango/"+list+"/"+id] = operation{"delete"}
	}
	while := map[string]precondition{
		"/arango/Supervision/Health/" + id + "/Status": {Lost},
		"/arango/Plan/AsyncReplication/Leader":         {leader},
	}
	body, err := json.Marshal([][]any{{remove, while}})
	if err != nil {
		return nil, fmt.Errorf("making a write to the agency: %w", err)
	}
	return body, nil
}
