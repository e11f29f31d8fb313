package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// server answers by URL. What it was asked is kept in order, of equal times sorted by nothing.
type server struct {
	answers map[string]func(*nethttp.Request) (*nethttp.Response, error)

	mu    sync.Mutex
	asked []string
}

func (s *server) RoundTrip(r *nethttp.Request) (*nethttp.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body := ""
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(raw)
	}
	s.mu.Lock()
	s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+body))
	s.mu.Unlock()
	if f := s.answers[r.URL.String()]; f != nil {
		return f(r)
	}
	return says(404, "nothing here")(r)
}

func says(status int, body string) func(*nethttp.Request) (*nethttp.Response, error) {
	return func(r *nethttp.Request) (*nethttp.Response, error) {
		return &nethttp.Response{
			StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: nethttp.Header{}, Request: r,
		}, nil
	}
}

func breaks(*nethttp.Request) (*nethttp.Response, error) {
	return nil, errors.New("connection refused")
}

// hangs until the request's context ends.
func hangs(r *nethttp.Request) (*nethttp.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// cut ends in the middle of the body.
func cut(r *nethttp.Request) (*nethttp.Response, error) {
	half := io.MultiReader(strings.NewReader(`{"a":`), failing{})
	return &nethttp.Response{StatusCode: 200, Body: io.NopCloser(half), Header: nethttp.Header{}, Request: r}, nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func answer(status int, value any) *nethttp.Response {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a test's own value
	}
	return &nethttp.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(string(text))), Header: nethttp.Header{}}
}

type answers = map[string]func(*nethttp.Request) (*nethttp.Response, error)

func open(t *testing.T, spec *v1alpha1.HTTP, s *server, endpoints ...string) system.System {
	t.Helper()
	opened, err := rest.Open(&v1alpha1.System{HTTP: spec}, system.Access{
		Endpoints: endpoints, Timeout: time.Minute, Transport: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func get(name, url string) []v1alpha1.Get { return []v1alpha1.Get{{Name: name, URL: url}} }

func member(id string) system.Member {
	return system.Member{MemberRef: v1alpha1.MemberRef{Role: "node", ID: id}, Pod: &snapshot.Pod{Namespace: "ns", Name: id, UID: "uid-1", IP: "10.0.0.7"}}
}

func TestSystemFacts(t *testing.T) {
	huge := `"` + strings.Repeat("x", 9<<20) + `"`
	for _, c := range []struct {
		name   string
		first  func(*nethttp.Request) (*nethttp.Response, error)
		second func(*nethttp.Request) (*nethttp.Response, error)
		want   any
		says   []string // in the error
	}{
		{name: "object", first: says(200, `{"n": 3, "s": "x", "l": [1, null]}`), want: map[string]any{"n": 3.0, "s": "x", "l": []any{1.0, nil}}},
		{name: "array", first: says(200, `[{"a": true}]`), want: []any{map[string]any{"a": true}}},
		{name: "number", first: says(200, `17`), want: 17.0},
		{name: "no content, then an answer", first: says(204, ""), second: says(200, `1`), want: 1.0},
		{name: "first refuses", first: breaks, second: says(200, `1`), want: 1.0},
		{name: "first hangs", first: hangs, second: says(200, `1`), want: 1.0},
		{name: "first forbids", first: says(403, "no"), second: says(200, `1`), want: 1.0},
		{name: "first is not JSON", first: says(200, "<html>"), second: says(200, `1`), want: 1.0},
		{
			name: "both fail", first: breaks, second: says(503, "  {\n\"later\": true} "),
			says: []string{`fact f: GET http://one/f: connection refused; GET http://two/f: answered 503 Service Unavailable: { "later": true}`},
		},
		{name: "redirect", first: says(302, ""), second: breaks, says: []string{"answered 302 Found"}},
		{name: "cut off", first: cut, second: breaks, says: []string{"the answer was cut off"}},
		{name: "hang", first: hangs, second: hangs, says: []string{"GET http://one/f: no answer in time", "GET http://two/f: no answer in time"}},
		{name: "two values", first: says(200, `1 2`), second: breaks, says: []string{"the answer is not JSON"}},
		{name: "a number that is too large", first: says(200, `1e999`), second: breaks, says: []string{"the answer is not JSON"}},
		{name: "too large", first: says(200, huge), second: breaks, says: []string{"larger than 8 MiB"}},
		{name: "a long story", first: says(500, `"`+strings.Repeat("word ", 200)+`"`), second: breaks, says: []string{"word word…", "connection refused"}},
		{name: "a page", first: says(500, "<html>secret</html>"), second: breaks, says: []string{"answered 500 Internal Server Error (19 bytes that are not JSON); "}},
		{name: "a long text", first: says(200, `{"a": "`+strings.Repeat("x", 300<<10)+`"}`), second: breaks, says: []string{"a text of more than 256 KiB"}},
		{name: "many values", first: says(200, "[0"+strings.Repeat(",0", maxValues)+"]"), second: breaks, says: []string{"more than 200000 values together"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			// In a bubble of time only hanging takes any, however slow the machine is.
			synctest.Test(t, func(t *testing.T) {
				s := open(t, &v1alpha1.HTTP{Facts: get("f", "/f")},
					&server{answers: answers{"http://one/f": c.first, "http://two/f": c.second}}, "http://one/", "http://two")
				e, err := s.Observe(t.Context(), nil)
				if len(c.says) > 0 {
					for _, part := range c.says {
						if err == nil || !strings.Contains(err.Error(), part) {
							t.Errorf("error %v, want %q", err, part)
						}
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(expression.Facts{"f": c.want}, e.System); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

const maxValues = 200_000

// Answers that are small each for itself may be many.
func TestAnswersOfOneObservationShareALimit(t *testing.T) {
	for name, body := range map[string]string{
		"bytes":  `{"a": 1` + strings.Repeat(" ", 1<<20) + `}`,
		"values": "[0" + strings.Repeat(",0", maxValues/15) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			var members []system.Member
			for i := range 20 {
				members = append(members, member(fmt.Sprint("m", i)))
			}
			w, err := rest.Open(&v1alpha1.System{HTTP: &v1alpha1.HTTP{MemberFacts: get("f", "/{{member.id}}")}}, system.Access{
				Endpoints: []string{"http://one"}, Timeout: time.Minute, Transport: always{200, body},
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the limit is that of one observation
				e, err := w.Observe(t.Context(), members)
				if err != nil {
					t.Fatal(err)
				}
				known := 0
				for _, facts := range e.Members {
					known += len(facts)
				}
				if known < 10 || known > 16 || !strings.Contains(e.Summary, "together: ask for less") {
					t.Errorf("%d of 20 answers were taken, and the summary is %q", known, e.Summary)
				}
			}
		})
	}
}

func TestWordsOfWhatIsNotHTTPAreNotShown(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			// The request is read first: what comes before it, or a connection that is reset, has other errors.
			_, _ = nethttp.ReadRequest(bufio.NewReader(connection))
			_, _ = connection.Write([]byte("220 mail.example secret banner\r\n"))
			_ = connection.Close()
		}
	}()
	w, err := rest.Open(&v1alpha1.System{HTTP: &v1alpha1.HTTP{Facts: get("f", "/")}}, system.Access{
		Endpoints: []string{"http://" + listener.Addr().String()}, Timeout: time.Minute, Loopback: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Observe(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "does not speak HTTP") {
		t.Errorf("error %v", err)
	}
}

func TestURLsHaveALimit(t *testing.T) {
	s, long := &server{}, member("a")
	long.Pod.Annotations = map[string]string{"x": strings.Repeat("y", 10_000)}
	e, err := open(t, &v1alpha1.HTTP{MemberFacts: get("f", `/{{pod.annotations["x"]}}`)}, s, "http://one").Observe(t.Context(), []system.Member{long})
	if err != nil || len(s.asked) > 0 || !strings.Contains(e.Summary, "more than 8192 characters") {
		t.Errorf("asked %v, summary %q, error %v", s.asked, e.Summary, err)
	}
}

func TestMemberFacts(t *testing.T) {
	s := &server{answers: answers{
		"http://one/nodes/a": says(200, `{"shards": 0}`),
		"http://10.0.0.7/up": says(200, `true`),
	}}
	spec := &v1alpha1.HTTP{MemberFacts: []v1alpha1.Get{
		{Name: "node", URL: "/nodes/{{member.id}}"}, {Name: "up", URL: "http://{{pod.ip}}/up"},
	}}
	e, err := open(t, spec, s, "http://one").Observe(t.Context(), []system.Member{member("a"), member("b")})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]expression.Facts{
		"a": {"node": map[string]any{"shards": 0.0}, "up": true},
		"b": {"up": true},
	}
	if diff := cmp.Diff(want, e.Members); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "b has no node: GET http://one/nodes/b: answered 404 Not Found (12 bytes that are not JSON)"; e.Summary != want {
		t.Errorf("summary %q, want %q", e.Summary, want)
	}
}

func TestManySilentMembers(t *testing.T) {
	var members []system.Member
	for i := range 40 {
		members = append(members, member(fmt.Sprint("m", i)))
	}
	e, err := open(t, &v1alpha1.HTTP{MemberFacts: get("f", "/{{member.id}}")}, &server{}, "http://one").Observe(t.Context(), members)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Members) != 40 || !strings.HasSuffix(e.Summary, "; and 37 more") {
		t.Errorf("%d members, summary %q", len(e.Members), e.Summary)
	}
}

func TestValuesAreEscaped(t *testing.T) {
	for _, c := range []struct{ id, asked, says string }{
		{id: "a b/c?d=e&f#g%h+i", asked: "GET http://one/n/a%20b%2Fc%3Fd%3De%26f%23g%25h%2Bi?q=a%20b%2Fc%3Fd%3De%26f%23g%25h%2Bi"},
		{id: "x:1", asked: "GET http://one/n/x:1?q=x:1"},
		{id: "..", says: "a part of the path is one dot or two"},
		{id: "../../admin", asked: "GET http://one/n/..%2F..%2Fadmin?q=..%2F..%2Fadmin", says: "a part of the path"},
	} {
		t.Run(c.id, func(t *testing.T) {
			s := &server{}
			e, err := open(t, &v1alpha1.HTTP{MemberFacts: get("f", "/n/{{member.id}}?q={{member.id}}")}, s, "http://one").
				Observe(t.Context(), []system.Member{member(c.id)})
			if err != nil {
				t.Fatal(err)
			}
			if c.says != "" {
				if len(s.asked) > 0 || !strings.Contains(e.Summary, c.says) {
					t.Errorf("asked %v, says %q", s.asked, e.Summary)
				}
				return
			}
			if diff := cmp.Diff([]string{c.asked}, s.asked); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMistakesAreFoundWhenOpened(t *testing.T) {
	for _, c := range []struct {
		name string
		spec v1alpha1.HTTP
		says string
	}{
		{"no slash", v1alpha1.HTTP{Facts: get("f", "f")}, `facts f: url "f" must begin with /`},
		{"a template that decides where to go", v1alpha1.HTTP{MemberFacts: get("f", "{{pod.ip}}/f")}, "must begin with /"},
		{"not CEL", v1alpha1.HTTP{MemberFacts: get("f", "/{{member.}}")}, "memberFacts f"},
		{"no such fact", v1alpha1.HTTP{MemberFacts: get("f", "/{{member.shards}}")}, "shards"},
		{"a secret that is not there", v1alpha1.HTTP{Headers: []v1alpha1.Header{{Name: "X-Key", Secret: &v1alpha1.SecretKey{Name: "s", Key: "k"}}}}, "header X-Key: secret s has no k"},
		{"summary", v1alpha1.HTTP{Summary: "1 +"}, "summary"},
		{"step", v1alpha1.HTTP{Steps: []v1alpha1.Step{{Name: "S", Do: v1alpha1.Call{Method: "POST", URL: "x"}}}}, "step S"},
		{"undo", v1alpha1.HTTP{Steps: []v1alpha1.Step{{
			Name: "S", Do: v1alpha1.Call{Method: "POST", URL: "/x"}, Undo: &v1alpha1.Call{Method: "POST", URL: "/x", Body: "{{"},
		}}}, "step S: undo: body"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := rest.Open(&v1alpha1.System{HTTP: &c.spec}, system.Access{Endpoints: []string{"http://one"}})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}

func exclude() *v1alpha1.HTTP {
	return &v1alpha1.HTTP{Steps: []v1alpha1.Step{
		{
			Name: "Exclude",
			Do:   v1alpha1.Call{Method: "PUT", URL: "/x/{{member.id}}", Body: `{"who": {{member.id}}, "pod": {{pod.name}} }`},
			Undo: &v1alpha1.Call{Method: "DELETE", URL: "/x/{{member.id}}"},
		},
		{Name: "Flush", Do: v1alpha1.Call{Method: "POST", URL: "/flush"}},
		{Name: "Broken", Do: v1alpha1.Call{Method: "POST", URL: "/flush", Body: `{"a": "{{member.id}}"}`}},
		{Name: "ByIP", Do: v1alpha1.Call{Method: "POST", URL: "http://{{pod.ip}}/flush"}},
	}}
}

func prep(name string) eviction.Preparation {
	return eviction.Preparation{Name: name, Namespace: "ns", Member: v1alpha1.MemberRef{ID: `a"b`, PodName: "a-0", PodUID: "uid-1"}}
}

func TestSteps(t *testing.T) {
	const url = "http://one/x/a%22b"
	for _, c := range []struct {
		name     string
		step     string
		undo     bool
		answers  answers
		asked    []string
		says     string
		terminal bool
		done     bool
	}{
		{
			name: "taken", step: "Exclude", answers: answers{url: says(202, "")},
			asked: []string{`PUT ` + url + ` {"who": "a\"b", "pod": "a-0" }`},
		},
		{
			name: "the second takes it", step: "Flush", answers: answers{"http://one/flush": says(503, ""), "http://two/flush": says(200, "")},
			asked: []string{"POST http://one/flush", "POST http://two/flush"},
		},
		{
			name: "refused for good", step: "Flush", answers: answers{"http://one/flush": says(400, "no such thing")}, terminal: true,
			says: "Flush of a\"b: POST http://one/flush: answered 400 Bad Request (13 bytes that are not JSON)", asked: []string{"POST http://one/flush"},
		},
		{
			name: "not there yet", step: "Flush", answers: answers{"http://one/flush": says(404, "")},
			says: "answered 404 Not Found", asked: []string{"POST http://one/flush"},
		},
		{
			name: "busy", step: "Flush", answers: answers{"http://one/flush": says(429, ""), "http://two/flush": says(409, "")},
			says: "answered 409 Conflict", asked: []string{"POST http://one/flush", "POST http://two/flush"},
		},
		{name: "body is not JSON", step: "Broken", says: "body is not JSON", terminal: true},
		{name: "no such step", step: "Fly", says: "no step Fly", terminal: true},
		{name: "not known any more", step: "ByIP", says: "ip"},
		{name: "undone", step: "Exclude", undo: true, answers: answers{url: says(200, "")}, done: true, asked: []string{"DELETE " + url}},
		{name: "undone before", step: "Exclude", undo: true, answers: answers{url: says(404, "")}, done: true, asked: []string{"DELETE " + url}},
		{
			name: "not undone", step: "Exclude", undo: true, answers: answers{url: says(500, ""), "http://two/x/a%22b": breaks},
			says: "undoing Exclude of a\"b", asked: []string{"DELETE " + url, "DELETE http://two/x/a%22b"},
		},
		{name: "nothing to undo", step: "Flush", undo: true, done: true},
		{name: "its owner has taken the step out of the policy", step: "Fly", undo: true, done: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &server{answers: c.answers}
			w := open(t, exclude(), s, "http://one", "http://two")
			var undone eviction.Undone
			var err error
			if c.undo {
				undone, err = w.Undo(t.Context(), prep(c.step))
			} else {
				_, err = w.Prepare(t.Context(), prep(c.step))
			}
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if done := undone.Done; done != c.done || errors.Is(err, system.ErrTerminal) != c.terminal {
				t.Errorf("done %v, error %v", done, err)
			}
			if diff := cmp.Diff(c.asked, s.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// A step may speak of what was observed of the pod.
func TestStepKnowsTheObservedPod(t *testing.T) {
	s := &server{answers: answers{"http://10.0.0.7/flush": says(200, "")}}
	w := open(t, exclude(), s, "http://one")
	if _, err := w.Observe(t.Context(), []system.Member{member("a-0")}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Prepare(t.Context(), prep("ByIP")); err != nil {
		t.Error(err)
	}
}

// One that hangs leaves time for the one after it, within the caller's deadline.
func TestDeadlineIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: answers{"http://one/f": hangs, "http://two/f": says(200, `1`)}}
		w, err := rest.Open(&v1alpha1.System{HTTP: &v1alpha1.HTTP{Facts: get("f", "/f")}}, system.Access{
			Endpoints: []string{"http://one", "http://two"}, Timeout: time.Hour, Transport: s,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := w.Observe(ctx, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestPasswordsInURLsAreHidden(t *testing.T) {
	_, err := open(t, &v1alpha1.HTTP{Facts: get("f", "http://user:secret@one/f")}, &server{}, "http://one").Observe(t.Context(), nil)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error: %v", err)
	}
}

// always gives one answer to every question.
type always struct {
	status int
	body   string
}

func (a always) RoundTrip(r *nethttp.Request) (*nethttp.Response, error) {
	return says(a.status, a.body)(r)
}

// A redirect is an answer like any other that is not one of success: headers with credentials do not follow it.
func TestRedirectsAreNotFollowed(t *testing.T) {
	s := &server{answers: answers{
		"http://one/f": func(r *nethttp.Request) (*nethttp.Response, error) {
			there := answer(302, nil)
			there.Header.Set("Location", "http://elsewhere/f")
			return there, nil
		},
		"http://elsewhere/f": says(200, `1`),
	}}
	_, err := open(t, &v1alpha1.HTTP{Facts: get("f", "/f")}, s, "http://one").Observe(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "answered 302 Found") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"GET http://one/f"}, s.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestEndpointsAreURLs(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"http://one:9200": true, "https://one": true, "one:9200": false, "127.0.0.1:9200": false, "tcp://one:9200": false,
	} {
		w, err := rest.Open(&v1alpha1.System{HTTP: &v1alpha1.HTTP{Facts: get("f", "/")}}, system.Access{
			Endpoints: []string{endpoint}, Timeout: time.Second,
		})
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "has to begin with http:// or https://") {
			t.Errorf("%s: %v", endpoint, err)
		}
		if err == nil {
			w.Close()
		}
	}
}
