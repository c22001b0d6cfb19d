// C++ without threads: exceptions, virtual calls, templates, containers, lambdas, statics, thread_local, streams.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

struct Shape { virtual ~Shape() = default; virtual double area() const = 0; int id = 0; };
struct Square : Shape { double side; explicit Square(double s) : side(s) {} double area() const override { return side * side; } };
struct Circle : virtual Shape { double r; explicit Circle(double r) : r(r) {} double area() const override { return 3 * r * r; } };
struct Noisy { std::string name; int &counter; Noisy(std::string n, int &c) : name(std::move(n)), counter(c) { counter++; } ~Noisy() { counter--; } };
int live, thrown;
thread_local int per_thread; static thread_local std::string own = "own";
template <class T> T &lazily() { static T value{}; return value; }
[[gnu::noinline]] int dangerous(int k) { Noisy guard("g" + std::to_string(k), live); if (k % 3 == 0) throw std::runtime_error("three " + std::to_string(k)); if (k % 5 == 0) throw k; return k; }
int careful(int k) noexcept { try { return dangerous(k); } catch (const std::exception &e) { thrown++; return std::string(e.what()).size(); } catch (int v) { thrown += 2; return -v; } }
int main() {
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int k = 0; k < 10; k++) { if (k % 2) shapes.push_back(std::make_unique<Square>(k)); else shapes.push_back(std::make_unique<Circle>(k)); shapes.back()->id = k; }
    std::cout << std::accumulate(shapes.begin(), shapes.end(), 0.0, [](double s, auto &p) { return s + p->area() + p->id; }) << '\n';
    int sum = 0;
    for (int k = 0; k < 20; k++) sum += careful(k);
    std::cout << sum << ' ' << live << ' ' << thrown << std::endl;
    std::map<std::string, std::vector<int>> index; std::unordered_map<int, std::string> names;
    std::istringstream words("one two three two one zero three three");
    int position = 0;
    for (std::string w; words >> w; position++) index[w].push_back(position), names[position] = w;
    for (auto &[w, at] : index) { std::cout << w; for (int p : at) std::cout << ' ' << p; std::cout << ';'; }
    std::cout << names.size() << lazily<std::string>().size() << lazily<std::vector<int>>().size() << '\n';
    std::variant<int, std::string> v = "text"; std::function<int(int)> f = [&](int x) { return x + sum; };
    std::string text = std::visit([](auto &x) { std::ostringstream o; o << x; return o.str(); }, v);
    std::vector<std::string> sorted{"pear", "apple", text, "fig", std::string(40, 'z')}; std::sort(sorted.begin(), sorted.end());
    for (auto &s : sorted) std::cout << s << ' ';
    std::cout << f(1) << '\n';
    per_thread = sum; own += "x";
    std::cout << per_thread << own << '\n';
    return 0;
}
