package metadatasim

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/test/httpfault"
)

// ask sends a request to a service behind a socket, and returns status and body, or that there was no answer.
func ask(t *testing.T, client *http.Client, method, address string, header map[string]string, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range header {
		request.Header.Set(key, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return response.StatusCode, "cut: " + string(answer)
	}
	return response.StatusCode, string(answer)
}

// Behind a socket, the services want of their clients what they want without one, and faults happen there as well.
func TestBehindASocket(t *testing.T) {
	ec2 := NewEC2()
	server := httptest.NewServer(ec2)
	defer server.Close()
	data := server.URL + "/latest/meta-data/" + EC2SpotAction
	get := func(token string) (int, string) {
		return ask(t, server.Client(), http.MethodGet, data, map[string]string{"X-aws-ec2-metadata-token": token}, "")
	}
	if status, _ := get("guessed"); status != http.StatusUnauthorized {
		t.Errorf("%d without a token", status)
	}
	token := server.URL + "/latest/api/token"
	for ttl, want := range map[string]int{"": 400, "0": 400, "21601": 400, "21600": 200} {
		if status, _ := ask(t, server.Client(), http.MethodPut, token, map[string]string{"X-aws-ec2-metadata-token-ttl-seconds": ttl}, ""); status != want {
			t.Errorf("a token for %q: %d, want %d", ttl, status, want)
		}
	}
	_, mine := ask(t, server.Client(), http.MethodPut, token, map[string]string{"X-aws-ec2-metadata-token-ttl-seconds": "60"}, "")
	if status, _ := get(mine); status != http.StatusNotFound {
		t.Errorf("%d where nothing is announced", status)
	}
	ec2.Interrupt("stop", time.Date(2026, 9, 18, 8, 2, 0, 0, time.UTC))
	if status, body := get(mine); status != http.StatusOK || body != `{"action": "stop", "time": "2026-09-18T08:02:00Z"}` {
		t.Errorf("%d %s", status, body)
	}
	for _, fault := range []struct {
		fault  httpfault.Fault
		status int
		body   string
	}{
		{httpfault.Fault{Refuse: true}, 0, ""},
		{httpfault.Fault{Lost: true}, 0, ""},
		{httpfault.Fault{Cut: 9}, 200, `cut: {"action"`},
		{httpfault.Fault{Status: 500, Body: "no"}, 500, "no"},
	} {
		ec2.Inject(fault.fault)
		if status, body := get(mine); status != fault.status || body != fault.body {
			t.Errorf("%+v: %d %q", fault.fault, status, body)
		}
		ec2.Heal()
	}
	ec2.ExpireTokens()
	if status, _ := get(mine); status != http.StatusUnauthorized {
		t.Errorf("%d with a token that has ended", status)
	}
}

func TestGCEHeaders(t *testing.T) {
	gce := NewGCE()
	client := &http.Client{Transport: gce.Transport()}
	const address = "http://metadata.google.internal/computeMetadata/v1/instance/"
	flavor := map[string]string{"Metadata-Flavor": "Google"}
	if status, _ := ask(t, client, http.MethodGet, address+GCEPreempted, nil, ""); status != http.StatusForbidden {
		t.Errorf("%d without the header", status)
	}
	if status, body := ask(t, client, http.MethodGet, address+GCEPreempted, flavor, ""); status != http.StatusOK || body != "FALSE" {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := ask(t, client, http.MethodGet, address+"nonsense", flavor, ""); status != http.StatusNotFound {
		t.Errorf("%d of what there is not", status)
	}
	if status, body := ask(t, client, http.MethodGet, address+GCEPreempted+"?wait_for_change=true&last_etag=old", flavor, ""); status != http.StatusOK || body != "FALSE" {
		t.Errorf("%d %s with an etag that is not the last", status, body)
	}
}

func TestAzureWants(t *testing.T) {
	azure := NewAzure("vm1")
	client := &http.Client{Transport: azure.Transport()}
	const address = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
	metadata := map[string]string{"Metadata": "true"}
	azure.Schedule(AzureEvent{EventID: "e1", EventStatus: "Scheduled"})
	for _, test := range []struct {
		name, method, address string
		header                map[string]string
		body                  string
		want                  int
	}{
		{"no header", http.MethodGet, address, nil, "", 400},
		{"no version", http.MethodGet, strings.TrimSuffix(address, "?api-version=2020-07-01"), metadata, "", 400},
		{"the events", http.MethodGet, address, metadata, "", 200},
		{"approving nothing", http.MethodPost, address, metadata, `{"StartRequests":[]}`, 400},
		{"approving what there is not", http.MethodPost, address, metadata, `{"StartRequests":[{"EventId":"e1"},{"EventId":"e2"}]}`, 400},
	} {
		if status, body := ask(t, client, test.method, test.address, test.header, test.body); status != test.want {
			t.Errorf("%s: %d %s, want %d", test.name, status, body, test.want)
		}
	}
	if approved := azure.Approved(); approved != nil {
		t.Errorf("%q", approved)
	}
	if status, _ := ask(t, client, http.MethodPost, address, metadata, `{"StartRequests":[{"EventId":"e1"}]}`); status != http.StatusOK || len(azure.Approved()) != 1 {
		t.Errorf("%d, and %q are approved", status, azure.Approved())
	}
}
