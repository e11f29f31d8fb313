package arangodb

import (
	"strings"
	"testing"
)

func FuzzHealth(f *testing.F) {
	f.Add([]byte(`{"error":false,"code":200,"Health":{"PRMR-x":{"Endpoint":"ssl://h:8529","Role":"DBServer","LastAckedTime":"2023-10-14T14:28:37Z"},
		"AGNT-a":{"Role":"Agent","Endpoint":"tcp://a:8529","Status":"GOOD","LastAckedTime":0.312}}}`))
	f.Add([]byte(`{"Health":{"AGNT-a":{"Role":"Agent","LastAckedTime":null}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := healthyAgents(data)
		if err != nil && len(found) > 0 {
			t.Errorf("an error and %v", found)
		}
		for _, address := range found {
			if webURL(address) != address {
				t.Errorf("%q is no address", address)
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(503, []byte(`{"errorNum":1496,"errorMessage":"not a leader"}`))
	f.Add(200, []byte("\xff\xfe<html>"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		got := reply{status: status, body: body}
		if _, err := got.json(); err != nil && (len(err.Error()) > 800 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("the sentence is %q", err)
		}
	})
}
