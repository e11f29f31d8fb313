package httpfault_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/test/httpfault"
)

// got is what a client gets, and whether its request arrived.
type got struct {
	Status  int
	Body    string
	Err     string
	Arrived bool
}

// send sends a request with a body to the server named a. Of one that is not answered the caller gives up.
func send(t *testing.T, faults *httpfault.Faults, method string, givesUp bool) got {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answer got
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer.Arrived = true
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.Copy(w, r.Body) // into memory
	})
	transport := httpfault.Transport(func(r *http.Request) (*http.Response, error) {
		if givesUp {
			cancel()
		}
		return faults.Serve("a", r, handler)
	})
	request, err := http.NewRequestWithContext(ctx, method, "http://service/items/1", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		answer.Err = err.Error()
		return answer
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		answer.Err = err.Error()
	}
	answer.Status, answer.Body = response.StatusCode, string(body)+response.Header.Get("Location")
	return answer
}

func TestFaults(t *testing.T) {
	fine := got{Status: http.StatusAccepted, Body: "hello", Arrived: true}
	for name, test := range map[string]struct {
		fault httpfault.Fault
		want  got
	}{
		"refused":        {httpfault.Fault{Refuse: true}, got{Err: "dial tcp: connection refused"}},
		"silent":         {httpfault.Fault{Silent: true}, got{Err: "context canceled"}},
		"lost":           {httpfault.Fault{Lost: true}, got{Err: "read: connection reset by peer", Arrived: true}},
		"cut":            {httpfault.Fault{Cut: 2}, got{Status: http.StatusAccepted, Body: "he", Err: "unexpected EOF", Arrived: true}},
		"cut at its end": {httpfault.Fault{Cut: 9}, got{Status: http.StatusAccepted, Body: "hello", Err: "unexpected EOF", Arrived: true}},
		"a status": {
			httpfault.Fault{Status: http.StatusFound, Header: map[string]string{"location": "/x"}, Body: "moved to "}, got{Status: http.StatusFound, Body: "moved to /x"},
		},
		"of this method, server and path": {httpfault.Fault{Server: "a", Method: http.MethodPut, Path: "/items", Refuse: true}, got{Err: "dial tcp: connection refused"}},
		"of another method":               {httpfault.Fault{Method: http.MethodGet, Refuse: true}, fine},
		"of another server":               {httpfault.Fault{Server: "b", Refuse: true}, fine},
		"of another path":                 {httpfault.Fault{Path: "/others", Refuse: true}, fine},
	} {
		t.Run(name, func(t *testing.T) {
			faults := &httpfault.Faults{}
			faults.Inject(test.fault)
			if diff := cmp.Diff(test.want, send(t, faults, http.MethodPut, test.fault.Silent)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFaultsHappenInTurnAndEnd(t *testing.T) {
	faults := &httpfault.Faults{}
	faults.Inject(httpfault.Fault{Method: http.MethodPut, Times: 2, Status: 500})
	faults.Inject(httpfault.Fault{Status: 503})
	var statuses []int
	for _, method := range []string{http.MethodPut, http.MethodGet, http.MethodPut, http.MethodPut} {
		statuses = append(statuses, send(t, faults, method, false).Status)
	}
	faults.Heal()
	statuses = append(statuses, send(t, faults, http.MethodPut, false).Status)
	if diff := cmp.Diff([]int{500, 503, 500, 503, 202}, statuses); diff != "" {
		t.Error(diff)
	}
}
