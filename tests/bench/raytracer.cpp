// RayTracer (Java Grande): 64 spheres, shadows and reflections; lines of the picture are handed out by a counter under
// a lock, and the scene is shared read-only through virtual calls.
//# kind: mixed
//# flags: -O2
#include "bench.h"
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace {

struct Vector {
    double x, y, z;
    Vector operator+(const Vector &o) const { return {x + o.x, y + o.y, z + o.z}; }
    Vector operator-(const Vector &o) const { return {x - o.x, y - o.y, z - o.z}; }
    Vector operator*(double f) const { return {x * f, y * f, z * f}; }
    double dot(const Vector &o) const { return x * o.x + y * o.y + z * o.z; }
    Vector unit() const { return *this * (1.0 / std::sqrt(dot(*this))); }
};

struct Ray { Vector origin, direction; };

class Primitive {
public:
    virtual ~Primitive() = default;
    virtual std::optional<double> hit(const Ray &ray) const = 0;
    virtual Vector normal(const Vector &at) const = 0;
    double shade = 0.7, mirror = 0.3;
};

class Sphere : public Primitive {
public:
    Sphere(Vector centre, double radius) : centre_(centre), radius_(radius) {}
    std::optional<double> hit(const Ray &ray) const override {
        Vector to = centre_ - ray.origin;
        double along = to.dot(ray.direction);
        double discriminant = along * along - to.dot(to) + radius_ * radius_;
        if (discriminant < 0)
            return std::nullopt;
        double distance = along - std::sqrt(discriminant);
        return distance > 1e-6 ? std::optional(distance) : std::nullopt;
    }
    Vector normal(const Vector &at) const override { return (at - centre_).unit(); }

private:
    Vector centre_;
    double radius_;
};

constexpr int SIDE = 1600 * SCALE;
std::vector<std::unique_ptr<Primitive>> scene;
std::vector<std::uint32_t> picture(static_cast<std::size_t>(SIDE) * SIDE);
const Vector light = Vector{3, 5, -4}.unit();
std::mutex mutex;
int next_line;

double trace(const Ray &ray, int depth) {
    const Primitive *nearest = nullptr;
    double distance = 1e30;
    for (const auto &primitive : scene)
        if (auto found = primitive->hit(ray); found && *found < distance) {
            distance = *found;
            nearest = primitive.get();
        }
    if (!nearest)
        return 0.1;
    Vector at = ray.origin + ray.direction * distance;
    Vector normal = nearest->normal(at);
    Ray shadow{at + normal * 1e-4, light};
    double brightness = 0.1;
    bool lit = true;
    for (const auto &primitive : scene)
        lit = lit && !primitive->hit(shadow);
    if (lit)
        brightness += nearest->shade * std::fmax(0, normal.dot(light));
    if (depth > 0) {
        Vector reflected = ray.direction - normal * (2 * normal.dot(ray.direction));
        brightness += nearest->mirror * trace({at + normal * 1e-4, reflected.unit()}, depth - 1);
    }
    return brightness;
}

void *body(void *) {
    for (;;) {
        int line;
        {
            std::lock_guard guard(mutex);
            if (next_line == SIDE)
                return nullptr;
            line = next_line++;
        }
        for (int column = 0; column < SIDE; column++) {
            Ray ray{{0, 0, -8}, Vector{(column - SIDE / 2) / (SIDE * 0.6), (line - SIDE / 2) / (SIDE * 0.6), 1}.unit()};
            picture[static_cast<std::size_t>(line) * SIDE + static_cast<std::size_t>(column)] =
                static_cast<std::uint32_t>(trace(ray, 3) * 255);
        }
    }
}

} // namespace

int main() {
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < 4; y++)
            for (int z = 0; z < 4; z++)
                scene.push_back(std::make_unique<Sphere>(Vector{x * 1.6 - 2.4, y * 1.6 - 2.4, z * 1.6}, 0.6));
    run_team(body);
    finish(checksum_bytes(picture.data(), picture.size() * sizeof picture[0]));
}
